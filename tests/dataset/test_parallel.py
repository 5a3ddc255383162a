import threading

from semimedref.dataset.parallel import each


def test_results_come_in_order():
    assert list(each(lambda i: i * i, range(500), label="squares")) == [i * i for i in range(500)]


def test_only_a_few_results_are_made_before_they_are_taken():
    made = []
    lock = threading.Lock()

    def work(i):
        with lock:
            made.append(i)
        return i

    results = each(work, range(5000), label="work")
    assert next(results) == 0
    assert len(made) < 5000  # the window is 16 a core
    results.close()
