"""MLflow's own pages on mirrored runs: what a user looks for stands in the rendered page."""

import json
import time

import fake_runs
import pytest
from live_mlflow import Server, store_at
from mlflow import MlflowClient

from semimedref.tracking import sync_run
from semimedref.tracking.store import mlflow_environment

ROWS = ("Baseline", "Teacher-student")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A served store with four runs; yields the pages' address, the experiment and the runs."""
    mlflow_environment(timeout_seconds=20, retries=2)
    root = tmp_path_factory.mktemp("site")
    uri = f"sqlite:///{root}/server.db"
    MlflowClient(tracking_uri=uri).search_experiments()  # here nobody else creates it
    store = store_at(uri, root, experiment="quickstart")
    cfg = fake_runs.config(root, experiment_name="quickstart")
    for number in range(4):
        sync_run(_run(root, number, cfg), store)
    runs = store.client.search_runs([store.experiment_id])
    server = Server(root)
    try:
        server.start()
        yield server.uri, store.experiment_id, [run.info.run_id for run in runs]
    finally:
        server.kill()


def _run(root, number, cfg):
    cfg = cfg | {"seed": {"value": number // 2}}
    folder = fake_runs.start_run(root, number, cfg, row=ROWS[number % 2])
    fake_runs.write_epochs(folder, [1, 2, 3])
    fake_runs.write_overlays(folder)
    (folder / "per_image.csv").write_text(
        f"id,patient,position,tp,fp,fn,dice\ncase-a,p1,upper left,{60 + number},20,20,0.75\n"
    )
    fake_runs.finish(folder, 3, dice=0.7 + number / 100)
    return folder


def waits_for(browser, words, seconds=30):
    """Until every word stands in the page as it is rendered."""
    limit = time.monotonic() + seconds
    text = ""
    while time.monotonic() < limit:
        text = browser.driver.execute_script("return document.body ? document.body.innerText : ''")
        if all(word in text for word in words):
            return text
        time.sleep(0.2)
    missing = [word for word in words if word not in text]
    raise AssertionError(f"{missing} not in the page:\n{text[:2000]}")


def test_runs_table_names_rows_ratios_and_seeds(browser, site):
    uri, experiment, _ = site
    browser.open(f"{uri}/#/experiments/{experiment}/runs")
    waits_for(browser, ["Baseline · 2pct · s0", "Teacher-student · 2pct · s1"])


def test_charts_group_the_metrics_and_name_the_rows(browser, site):
    uri, experiment, _ = site
    browser.open(f"{uri}/#/experiments/{experiment}/runs?compareRunsMode=CHART")
    headings = [f"\n{group}\n" for group in ("resources", "test", "train", "val", "view")]
    text = waits_for(browser, [*headings, "resources/epoch", "Teacher-student · 2pct"])
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)


def test_compare_page_sets_rows_and_metrics_side_by_side(browser, site):
    uri, experiment, runs = site
    query = f"runs={json.dumps(runs, separators=(',', ':'))}&experiments={json.dumps([experiment])}"
    browser.open(f"{uri}/#/compare-runs?{query}")
    text = waits_for(browser, ["Baseline · 2pct · s0", "test/dice", "method.momentum_end"])
    assert "0.73" in text


def test_tables_of_the_test_images_stand_side_by_side(browser, site):
    uri, experiment, _ = site
    browser.open(f"{uri}/#/experiments/{experiment}/runs?compareRunsMode=ARTIFACT")
    waits_for(browser, ["per_image.json"])


def test_run_page_says_where_the_run_is_and_how_to_make_it_again(browser, site):
    uri, experiment, runs = site
    browser.open(f"{uri}/#/experiments/{experiment}/runs/{runs[0]}")
    waits_for(browser, ["semimedref train -m experiment=quickstart only=phantom-2pct", "signature"])


def test_pages_ask_only_their_own_server(browser, site):
    uri, experiment, _ = site
    browser.open(f"{uri}/#/experiments/{experiment}/runs")
    waits_for(browser, ["Baseline · 2pct · s0"])
    foreign = [u for u in browser.requests() if u.startswith("http") and not u.startswith(uri)]
    assert foreign == []
