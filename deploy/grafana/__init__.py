"""The Grafana dashboards, as code: `python -m deploy.grafana` writes `dashboards/*.json`, which Grafana is given."""
