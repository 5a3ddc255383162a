#!/bin/sh
# MLflow's tracking server on PostgreSQL, in the container of compose.yaml or without one:
#
#   pip install 'semimedref[postgres]'
#   MLFLOW_BACKEND_STORE_URI=postgresql+psycopg2://mlflow@127.0.0.1/mlflow PGPASSFILE=~/.pgpass \
#   ARTIFACTS=/srv/mlflow/artifacts sh deploy/mlflow/serve.sh
#
# The password is in no address and on no command line: it comes from POSTGRES_PASSWORD_FILE,
# PGPASSWORD or PGPASSFILE.
set -eu
: "${MLFLOW_BACKEND_STORE_URI:?is not set: e.g. postgresql+psycopg2://mlflow@127.0.0.1/mlflow}"
: "${ARTIFACTS:?is not set: the folder (or s3:// address) that holds the files of all runs}"

if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
  export PGPASSWORD
fi

# Connections: a worker holds at most POOL_SIZE + MAX_OVERFLOW; keep WORKERS times that below
# PostgreSQL's max_connections. MLflow's default of 5 + 10 ran dry under 8 impatient clients.
export MLFLOW_SQLALCHEMYSTORE_POOL_SIZE="${POOL_SIZE:-10}"
export MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW="${MAX_OVERFLOW:-10}"
export MLFLOW_SQLALCHEMYSTORE_POOL_RECYCLE="${POOL_RECYCLE:-1800}"
export MLFLOW_DISABLE_TELEMETRY=true
export DO_NOT_TRACK=true
# Names of runs are UTF-8; a cluster made in the locale C would refuse them.
export PGCLIENTENCODING=UTF8
# The runner of MLflow's own jobs is a second process of 230 MB that we have no use for.
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
# Names under which browsers and jobs reach the server: others are refused, against DNS rebinding.
# MLflow's default is localhost and private addresses (10.*, 192.168.*), by number.
if [ -n "${ALLOWED_HOSTS:-}" ]; then
  export MLFLOW_SERVER_ALLOWED_HOSTS="$ALLOWED_HOSTS"
fi
if [ -n "${CORS_ALLOWED_ORIGINS:-}" ]; then
  export MLFLOW_SERVER_CORS_ALLOWED_ORIGINS="$CORS_ALLOWED_ORIGINS"
fi

# A worker takes seconds to import MLflow; on a busy host uvicorn's 5 s would kill it meanwhile.
exec "${PYTHON:-python}" -m mlflow server --host "${HOST:-127.0.0.1}" --port "${PORT:-5000}" \
  --workers "${WORKERS:-4}" --artifacts-destination "$ARTIFACTS" \
  --uvicorn-opts "--timeout-worker-healthcheck 120 --timeout-keep-alive 60"
