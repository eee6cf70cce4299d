"""Sections of a preset about data: from raw text to segments, entities and vocabulary.

Flows that train nothing read these alone: the other sections describe models and the embedding of graphs.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tasks.clean.repeated_lines import RepeatedLinesParams
from tasks.clean.stage import CleanParams
from tasks.decontaminate.stage import DecontaminateParams
from tasks.deduplicate.stage import DeduplicateParams
from tasks.deidentify.stage import DeidentifyParams
from tasks.entities.stage import EntitiesParams
from tasks.evaluate.similarity.params import SimilarityPairsParams
from tasks.ingest.render_articles import RenderParams
from tasks.ingest.stage import IngestParams
from tasks.knowledge.fuse import FuseGraphsParams
from tasks.knowledge.link import LinkParams
from tasks.knowledge.thesaurus import ThesaurusParams
from tasks.phrases.segments import PhraseSegmentsParams
from tasks.phrases.stage import PhrasesParams
from tasks.pretrain.encode import EncodeParams
from tasks.pretrain.entity_surfaces import EntitySurfacesParams
from tasks.pretrain.pairs import PairsParams
from tasks.pretrain.product_records import ProductRecordsParams
from tasks.pretrain.products import ProductsParams
from tasks.reports.corpus import ReportParams
from tasks.reports.entities import ReportEntitiesParams
from tasks.reports.graph import ReportGraphParams
from tasks.reports.vocabulary import ReportVocabularyParams
from tasks.segment.stage import SegmentParams
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams

MODEL_SECTIONS = frozenset(("neighbours", "embed", "objective", "model", "training", "cluster", "export"))
"""Names of the other sections of a preset; `flows.recipes.pretraining.Preset` has them."""


class EqualNames(SimilarityPairsParams):
    """Pairs of equal names of a graph, and whether they are held out of it."""

    hold_out: bool = Field(
        default=False,
        description="keep the pairs apart in the fused graph, so that no model, neighbour or vector made from it has "
        "seen them as equal, and evaluate/intrinsic can ask for them",
    )

    @property
    def pairs(self) -> SimilarityPairsParams:
        """Parameters of the stage: those that choose the pairs."""
        return SimilarityPairsParams(**self.model_dump(exclude={"hold_out"}))


class Recipe(BaseModel):
    """Parameters of every stage that works on data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    """A line about the preset, for people."""
    ingest: IngestParams = Field(default_factory=IngestParams)
    render: RenderParams = Field(default_factory=RenderParams)
    clean: CleanParams = Field(default_factory=CleanParams)
    deidentify: DeidentifyParams = Field(default_factory=DeidentifyParams)
    deduplicate: DeduplicateParams = Field(default_factory=DeduplicateParams)
    repeated_lines: RepeatedLinesParams | None = None
    decontaminate: DecontaminateParams = Field(default_factory=DecontaminateParams)
    report: ReportParams = Field(default_factory=ReportParams)
    count_words: CountWordsParams = Field(default_factory=CountWordsParams)
    vocabulary: VocabularyParams = Field(default_factory=VocabularyParams)
    report_vocabulary: ReportVocabularyParams = Field(default_factory=ReportVocabularyParams)
    segment: SegmentParams = Field(default_factory=SegmentParams)
    encode: EncodeParams = Field(default_factory=EncodeParams)
    pairs: PairsParams = Field(default_factory=PairsParams)
    entity_surfaces: EntitySurfacesParams = Field(default_factory=EntitySurfacesParams)
    product_records: ProductRecordsParams = Field(default_factory=ProductRecordsParams)
    products: ProductsParams = Field(default_factory=ProductsParams)
    fuse: FuseGraphsParams = Field(default_factory=FuseGraphsParams)
    similarity_pairs: EqualNames = Field(default_factory=EqualNames)
    link: LinkParams = Field(default_factory=LinkParams)
    report_graph: ReportGraphParams = Field(default_factory=ReportGraphParams)
    phrases: PhrasesParams = Field(default_factory=PhrasesParams)
    phrase_segments: PhraseSegmentsParams = Field(default_factory=PhraseSegmentsParams)
    entities: EntitiesParams = Field(default_factory=EntitiesParams)
    thesaurus: ThesaurusParams = Field(default_factory=ThesaurusParams)
    report_entities: ReportEntitiesParams = Field(default_factory=ReportEntitiesParams)
