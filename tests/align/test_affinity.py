import torch

from semimedref.align.affinity import identity, jaccard


def test_equation_affinity_is_shared_over_named_regions():
    q = torch.tensor(
        [
            [1, 1, 0, 0, 0, 0],  # left upper, left middle
            [0, 1, 1, 0, 0, 0],  # left middle, left lower: 1 shared of 3
            [1, 1, 1, 0, 0, 0],  # 2 shared of 3 with both
            [0, 0, 0, 1, 0, 0],  # right upper: nothing shared
        ]
    )
    third = 1 / 3
    expected = [[1, third, 2 / 3, 0], [third, 1, 2 / 3, 0], [2 / 3, 2 / 3, 1, 0], [0, 0, 0, 1]]
    torch.testing.assert_close(jaccard(q), torch.tensor(expected))


def test_affinity_equals_the_ratio_of_python_sets():
    q = (torch.rand(12, 5, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    sets = [{k for k in range(5) if row[k]} for row in q.tolist()]
    found = jaccard(q)
    for i, a in enumerate(sets):
        for j, b in enumerate(sets):
            expected = 1.0 if i == j else len(a & b) / len(a | b) if a | b else 0.0
            assert abs(found[i, j].item() - expected) < 1e-6


def test_sentence_without_position_is_positive_with_itself_alone():
    q = torch.tensor([[0.0, 0], [0, 0], [1, 0]])
    assert jaccard(q).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_equal_positions_are_fully_positive():
    assert jaccard(torch.tensor([[1.0, 0, 1], [1, 0, 1]])).tolist() == [[1, 1], [1, 1]]


def test_affinity_leaves_positions_untouched():
    q = torch.tensor([[1.0, 1], [0, 1]])
    jaccard(q)
    assert q.tolist() == [[1, 1], [0, 1]]


def test_identity_ignores_positions():
    assert identity(torch.ones(3, 6)).tolist() == torch.eye(3).tolist()
