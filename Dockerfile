# One image for every process of ours and for Spark's master and workers, so that all run the same Python and the same Spark.
FROM python:3.11-slim-bookworm AS build
WORKDIR /opt/gantry
RUN pip install --no-cache-dir uv==0.13.8
COPY pyproject.toml uv.lock ./
# The project itself is not installed but copied: the command `gantry` is written below. There is no demo account.
RUN uv sync --frozen --no-dev --all-extras --no-extra demo --no-cache --no-install-project

FROM python:3.11-slim-bookworm
# Spark's scripts need a Java of 17 or later and ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home gantry && install -d -o gantry -g gantry /var/lib/gantry /var/lib/gantry/lake /var/lib/gantry/spark
WORKDIR /opt/gantry
COPY --from=build /opt/gantry/.venv .venv
COPY manage.py pyproject.toml LICENSE ./
COPY console console
COPY brokercore brokercore
COPY mysqlwire mysqlwire
COPY analytics analytics
COPY launcher launcher
COPY gantry_cli gantry_cli
RUN printf '#!/opt/gantry/.venv/bin/python\nfrom gantry_cli.main import main\nmain()\n' > .venv/bin/gantry && chmod 755 .venv/bin/gantry
COPY templates templates
COPY static static
COPY docs docs
ENV PATH=/opt/gantry/.venv/bin:$PATH \
    PYTHONPATH=/opt/gantry \
    PYTHONUNBUFFERED=1 \
    GANTRY_HOME=/var/lib/gantry \
    SPARK_HOME=/opt/gantry/.venv/lib/python3.11/site-packages/pyspark
USER gantry
