"""Sixteen trainings at once, without the training: each a process with a run folder and a mirror.

python writers.py ROOT URI WRITERS EPOCHS SECONDS_AN_EPOCH FIRST [tracking key=number ...]

MLflow is imported once and the writers are forked from there: on a machine with two cores sixteen
imports would take longer than all that is tested. Prints one JSON line for each writer.
"""

import json
import os
import sys
import time
import traceback

import fake_runs
import mlflow.store.artifact.mlflow_artifacts_repo
import mlflow.store.tracking.rest_store
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

from semimedref.tracking import open_mirror

EXPERIMENTS = ("main", "ablation")  # writers take turns


def write(root, uri, number, epochs, pause, settings):
    """What a trainer does: a row, a word to the mirror, and on; returns what it cost."""
    experiment = EXPERIMENTS[number % len(EXPERIMENTS)]
    cfg = fake_runs.config(root, experiment_name=experiment, uri=uri, **settings)
    folder = fake_runs.start_run(root, number, cfg, row=f"writer {number}")
    mirror = open_mirror(folder, cfg)
    waits, used = [], 0.0
    with fake_runs.training(folder):
        mirror.notify()
        for epoch in range(1, epochs + 1):
            fake_runs.write_epochs(folder, [epoch])
            started, cpu = time.perf_counter(), time.thread_time()
            mirror.notify()
            waits.append(time.perf_counter() - started)
            used += time.thread_time() - cpu
            time.sleep(pause)
        fake_runs.finish(folder, epochs)
        complete = mirror.close()
    costs = {"longest_wait": max(waits), "thread_seconds": used, "cpu_seconds": time.process_time()}
    return {"folder": folder.name, "experiment": experiment, "complete": complete} | costs


def main(root, uri, writers, epochs, pause, first, *words):
    settings = {key: json.loads(value) for key, value in (word.split("=") for word in words)}
    children = []
    for number in range(int(first), int(first) + int(writers)):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                told = write(root, uri, number, int(epochs), float(pause), settings)
                sys.stdout.write(json.dumps(told) + "\n")
                sys.stdout.flush()
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
