from semimedref.config import compose, resolved
from semimedref.planning.stages import Length, length_of, stages_of


def config(*overrides):
    return resolved(compose(list(overrides)))


def kinds(*overrides, length, unlabeled=True, done=0):
    found = stages_of(config(*overrides), length, unlabeled=unlabeled, done=done)
    return {stage.key: n for stage, n in found.items()}


def test_an_epoch_is_one_pass_of_the_larger_pool():
    paper = config("scale=paper", "method=teacher_student")
    assert length_of(paper, labeled=114, unlabeled=5602) == Length(100, 176, 1)  # 175.06


def test_a_supervised_epoch_is_as_long_unless_it_is_native():
    alone = ["scale=paper", "method=supervised", "augment=none"]
    assert length_of(config(*alone), labeled=114, unlabeled=5602).steps == 17600
    native = length_of(config(*alone, "trainer.steps=native"), labeled=114, unlabeled=5602)
    assert native.steps_per_epoch == 4  # 114 / 32


def test_micro_batches_make_fewer_steps():
    halved = config("scale=paper", "trainer.batch_size=16", "trainer.accumulate=2")
    assert length_of(halved, labeled=114, unlabeled=5602) == Length(100, 176, 2)


def test_burn_in_takes_labeled_images_alone():
    length = Length(100, 176, 1)
    assert kinds("scale=paper", "method=teacher_student", length=length) == {
        "unlabeled-burn_in-skips": 5 * 176,
        "unlabeled": 95 * 176,
    }


def test_an_epoch_in_which_the_unlabeled_branch_weighs_nothing_is_cheap_too():
    found = kinds("scale=paper", "preset=release", length=Length(100, 10, 1))
    assert found == {"unlabeled-burn_in-skips": 50, "unlabeled-skips": 10, "unlabeled": 940}


def test_without_unlabeled_images_only_the_contrast_waits_for_burn_in():
    found = kinds("scale=paper", "align=pacl", length=Length(100, 2, 1), unlabeled=False)
    assert found == {"burn_in-skips": 10, "labeled": 190}


def test_a_method_without_a_schedule_has_one_kind_of_step():
    assert kinds("method=supervised", "augment=none", length=Length(3, 5, 1)) == {"labeled": 15}


def test_steps_that_were_taken_are_not_planned_again():
    found = kinds("scale=paper", "method=teacher_student", length=Length(100, 10, 1), done=480)
    assert found == {"unlabeled": 520}


def test_a_method_with_stages_takes_the_steps_of_each():
    found = kinds("scale=paper", "method=textmoe", "trainer.epochs=5", length=Length(5, 10, 1))
    # half of five epochs is rounded to two
    assert found == {"unlabeled-stage_labeled": 20, "unlabeled-stage_all": 30}


def test_steps_and_lengths_are_those_of_the_stage():
    node = config("scale=paper", "method=textmoe", "trainer.epochs=4")
    steps = {
        stage.at.stage: stage.at for stage in stages_of(node, Length(4, 10, 1), unlabeled=True)
    }
    assert {name: (at.step, at.total_steps) for name, at in steps.items()} == {
        "labeled": (19, 20),
        "all": (19, 20),
    }


def test_steps_of_a_stage_that_is_over_are_not_planned_again():
    words = ["scale=paper", "method=textmoe", "trainer.epochs=4"]
    for done, left in ((10, [10, 20]), (20, [20]), (30, [10]), (40, [])):
        assert list(kinds(*words, length=Length(4, 10, 1), done=done).values()) == left
