import torch

from semimedref.model.vlm.gaussian import GaussianHead, squared_distance, wasserstein


def test_distance_of_gaussians_by_hand():
    mean, deviation = torch.tensor([[0.0, 0.0], [1.0, 2.0]]), torch.tensor([[1.0, 1.0], [2.0, 1.0]])
    other_mean, other_deviation = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 3.0]])
    distance, of_means = wasserstein(mean, deviation, other_mean, other_deviation)
    assert of_means.tolist() == [[25.0], [8.0]]  # 9 + 16; 4 + 4
    assert distance.tolist() == [[29.0], [13.0]]  # + 0 + 4; + 1 + 4


def test_every_pair_is_compared_as_one_by_one():
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 3, 5, generator=g), torch.randn(2, 4, 5, generator=g)
    expected = [[[((x - y) ** 2).sum() for y in b[i]] for x in a[i]] for i in range(2)]
    torch.testing.assert_close(squared_distance(a, b), torch.tensor(expected))
    assert (squared_distance(a, a) >= 0).all()


def test_the_head_has_the_published_tensors_and_splits_its_attention():
    head = GaussianHead(512, heads=8, dropout=0.1)
    assert len(list(head.parameters())) == 21  # as many as the release has, all without gradient
    assert sum(p.numel() for p in head.parameters()) == 5_514_752
    small = GaussianHead(8, heads=2, dropout=0.0).eval()
    tokens = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = small(tokens)
        small.to_mean.weight.mul_(2)
        after = small(tokens)
    assert not torch.allclose(before[0], after[0]) and torch.equal(before[1], after[1])


def test_the_mean_keeps_the_token_where_attention_says_nothing():
    head = GaussianHead(8, heads=2, dropout=0.0).eval()
    with torch.no_grad():
        for part in (head.to_mean, head.mean_mlp[-2], head.to_deviation, head.deviation_mlp[-2]):
            part.weight.zero_()
            part.bias.zero_()
        tokens = torch.randn(1, 2, 8, generator=torch.Generator().manual_seed(2))
        mean, deviation = head(tokens)
        expected = head.norm(torch.nn.functional.gelu(head.entry(tokens)))
    torch.testing.assert_close(mean, expected)
    assert not deviation.any()
