"""What travels between the halves, as vLLM wants it: one class for each direction."""

from dataclasses import dataclass

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
)

from kvstow.client.engines.offload.steps import Report, Step


@dataclass
class StepMetadata(KVConnectorMetadata):
    """From the scheduler half to every worker."""

    step: Step


@dataclass
class ReportMetadata(KVConnectorWorkerMetadata):
    """From a worker to the scheduler half."""

    report: Report

    def aggregate(self, other: KVConnectorWorkerMetadata) -> "ReportMetadata":
        """What both workers say."""
        assert isinstance(other, ReportMetadata)
        return ReportMetadata(self.report.joined(other.report))
