"""The papers' scores on the downstream tasks, as they print them.

Columns are tasks, `/dev` where a score is of the dev set, `avg` the mean over CBLUE. `a/b` is the mean and the best of
several runs. Of CMedLMs only F1 is here; some of its rows are misprints (the bare BiLSTM's on SAHSU repeats BERT's).
ELECTRA+EM+PAP's table repeats EMBERT's scores, of another cMedQA in the same column: they stand in EMBERT's table here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A score in a paper's table."""

    source: str
    model: str
    group: str
    """Heading above the model; empty where there is none."""
    task: str
    split: str
    value: float
    """A fraction of 1; of cMedIR the pair score."""
    best: float | None
    """The best run, where the paper gives it beside the mean."""
    printed: str


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table, or what of it belongs to tasks of ours."""

    source: str
    percent: bool
    note: str
    columns: str
    rows: str

    def scores(self) -> Iterator[PublishedScore]:
        """Its scores, row by row; cells without one are left out."""
        columns = [column.partition("/") for column in self.columns.split()]
        group = ""
        for line in filter(None, self.rows.split("\n")):
            if line.startswith("# "):
                group = line[2:]
                continue
            model, *cells = (part.strip() for part in line.split("|"))
            for (task, _, split), cell in zip(columns, cells, strict=True):
                if cell != "-":
                    scale = 100 if self.percent and task != "cmedir" else 1
                    mean, *best = (float(number) / scale for number in cell.split("/"))
                    yield PublishedScore(
                        self.source, model, group, task, split or "test", mean, best[0] if best else None, cell
                    )


def published(task: str, split: str = "test") -> list[PublishedScore]:
    """All scores of a task (or of `avg`, the mean over CBLUE), table by table."""
    return [one for table in TABLES for one in table.scores() if one.task == task and one.split == split]


TABLES: tuple[PublishedTable, ...] = (
    PublishedTable(
        source="eHealth, Table 4",
        percent=True,
        note="one run, the best on dev; the benchmark scores the hidden test",
        columns="cmeee cmeie chip-cdn chip-ctc chip-sts kuake-qic kuake-qtr kuake-qqr avg",
        rows="""
# General-domain base-sized models
BERT-base | 66.5 | 60.6 | 69.7 | 68.6 | 84.7 | 85.2 | 59.2 | 82.5 | 72.1
ELECTRA-base | 65.1 | 60.4 | 69.9 | 67.7 | 84.4 | 85.2 | 61.8 | 84.0 | 72.3
MacBERT-base | 66.8 | 61.5 | 69.7 | 69.1 | 84.4 | 86.0 | 61.0 | 83.5 | 72.7
RoBERTa-wwm-ext-base | 66.7 | 61.4 | 69.3 | 68.3 | 84.2 | 86.0 | 60.9 | 82.7 | 72.4
# General-domain large-sized models
ELECTRA-large | 66.1 | 59.3 | 70.8 | 68.9 | 85.1 | 84.1 | 62.0 | 85.7 | 72.8
MacBERT-large | 67.6 | 62.2 | 70.9 | 69.7 | 86.5 | 85.7 | 62.5 | 83.5 | 73.6
RoBERTa-wwm-ext-large | 67.3 | 62.2 | 70.6 | 70.6 | 85.4 | 86.7 | 61.7 | 86.1 | 73.8
# Biomedical base-sized models
MC-BERT-base | 66.6 | 60.7 | 70.1 | 69.1 | 85.4 | 85.3 | 61.6 | 82.3 | 72.6
PCL-MedBERT-base | 66.6 | 60.8 | 69.9 | 70.4 | 84.8 | 85.3 | 60.2 | 83.3 | 72.7
eHealth-base | 67.0 | 61.6 | 71.2 | 70.5 | 86.2 | 87.4 | 63.5 | 85.5 | 74.1
""",
    ),
    PublishedTable(
        source="eHealth, Table 5",
        percent=True,
        note="mean of the three runs best on dev",
        columns="cmedqnli/dev cmedqnli webmedqa/dev webmedqa nlpec/dev nlpec",
        rows="""
# General-domain base-sized models
BERT-base | 96.4 | 96.4 | 79.0 | 79.2 | 66.0 | 50.9
ELECTRA-base | 96.0 | 95.9 | 79.1 | 79.1 | 68.2 | 53.8
MacBERT-base | 96.3 | 96.2 | 79.3 | 79.5 | 67.3 | 53.6
RoBERTa-base | 96.2 | 96.2 | 79.0 | 79.5 | 67.7 | 51.3
# General-domain large-sized models
ELECTRA-large | 96.4 | 96.2 | 78.8 | 79.9 | 67.4 | 54.5
MacBERT-large | 96.3 | 96.3 | 78.7 | 78.9 | 69.2 | 54.3
RoBERTa-large | 96.3 | 96.2 | 78.8 | 79.2 | 70.1 | 54.3
# Biomedical base-sized models
MC-BERT-base | 96.4 | 96.5 | 79.2 | 79.8 | 65.6 | 52.2
PCL-MedBERT-base | 96.3 | 96.2 | 78.6 | 79.1 | 63.9 | 49.8
eHealth-base | 97.3 | 97.0 | 80.0 | 80.5 | 70.4 | 60.4
""",
    ),
    PublishedTable(
        source="eHealth, Table 6",
        percent=True,
        note="batch 128, 500K steps; else as Table 4",
        columns="cmeee cmeie chip-cdn chip-ctc chip-sts kuake-qic kuake-qtr kuake-qqr avg",
        rows="""
The full setting | 66.6 | 61.6 | 70.3 | 69.6 | 85.1 | 87.5 | 62.0 | 85.5 | 73.5
w/o CSP | 66.5 | 61.3 | 69.8 | 69.7 | 84.6 | 86.7 | 61.5 | 84.5 | 73.1
w/o MTS | 65.8 | 60.2 | 70.4 | 68.1 | 85.4 | 85.6 | 61.4 | 84.3 | 72.7
w/o CSP & MTS | 65.6 | 60.0 | 70.1 | 68.5 | 84.4 | 86.5 | 61.1 | 84.4 | 72.6
""",
    ),
    PublishedTable(
        source="eHealth, Table 6",
        percent=True,
        note="batch 128, 500K steps; else as Table 5",
        columns="cmedqnli/dev cmedqnli webmedqa/dev webmedqa nlpec/dev nlpec",
        rows="""
The full setting | 97.0 | 96.9 | 79.7 | 80.1 | 68.1 | 55.8
w/o CSP | 96.9 | 96.7 | 79.8 | 79.7 | 67.6 | 53.1
w/o MTS | 96.7 | 96.5 | 79.7 | 80.1 | 68.8 | 55.2
w/o CSP & MTS | 96.6 | 96.4 | 79.7 | 79.7 | 67.8 | 54.2
""",
    ),
    PublishedTable(
        source="EMBERT, Table 3",
        percent=True,
        note="",
        columns="cmedqq cmedqnli cmedqaner cnner cmedqa-embert webmedqa",
        rows="""
MC-BERT | 87.16 | 96.36 | 83.99 | 66.61 | 74.46 | 80.54
ERNIE-THU | 87.03 | 96.04 | 84.43 | 66.87 | 74.13 | 79.96
BERT-wwm | 86.82 | 96.08 | 83.12 | 66.59 | 72.96 | 79.68
RoBERTa | 86.97 | 96.11 | 83.29 | 66.72 | 73.18 | 79.57
BERT-base | 86.72 | 96.06 | 83.07 | 66.46 | 73.82 | 79.72
EMBERT from BERT-base | 87.59 | 96.50 | 84.49 | 67.07 | 75.10 | 80.51
EMBERT from MC-BERT | 88.06 | 96.59 | 85.02 | 67.22 | 75.32 | 80.63
""",
    ),
    PublishedTable(
        source="SMedBERT, Table 2",
        percent=True,
        note="mean of five runs",
        columns="cmedqaner/dev cmedqaner chip-re",
        rows="""
BERT-open | 80.69 | 83.12 | 85.86
BERT-wwm-open | 80.52 | 83.07 | 86.01
RoBERT-open | 80.92 | 83.29 | 86.19
BioBERT-zh | 80.72 | 83.38 | 86.12
MC-BERT | 81.02 | 83.46 | 86.09
KnowBERT-med | 81.29 | 83.75 | 86.27
ERNIE-med | 81.22 | 83.87 | 86.25
SMedBERT | 82.23 | 84.75 | 86.95
""",
    ),
    PublishedTable(
        source="SMedBERT, Table 3",
        percent=True,
        note="mean of five runs; samples of cMedQA and webMedQA",
        columns="cmedqa-embert/dev cmedqa-embert webmedqa/dev webmedqa cmedqq/dev cmedqq cmedqnli/dev cmedqnli",
        rows="""
BERT-open | 72.99 | 73.82 | 77.20 | 79.72 | 86.74 | 86.72 | 95.52 | 95.66
BERT-wwm-open | 72.03 | 72.96 | 77.06 | 79.68 | 86.98 | 86.82 | 95.53 | 95.78
RoBERT-open | 72.22 | 73.18 | 77.18 | 79.57 | 87.24 | 86.97 | 95.87 | 96.11
BioBERT-zh | 74.32 | 75.12 | 78.04 | 80.45 | 87.30 | 87.06 | 95.89 | 96.04
MC-BERT | 74.40 | 74.46 | 77.85 | 80.54 | 87.17 | 87.01 | 95.81 | 96.06
KnowBERT-med | 74.38 | 75.25 | 78.20 | 80.67 | 87.25 | 87.14 | 95.96 | 96.03
ERNIE-med | 74.37 | 75.22 | 77.93 | 80.56 | 87.34 | 87.20 | 96.02 | 96.25
SMedBERT | 75.06 | 76.04 | 79.26 | 81.68 | 88.13 | 88.09 | 96.64 | 96.88
""",
    ),
    PublishedTable(
        source="ELECTRA+EM+PAP, Table 4",
        percent=True,
        note="mean/best of five runs; MC-BERT and BioHanBERT as their papers have them",
        columns="cehrner cmedqaner cmedqq cmedqa cmedqnli cmedir cmedic cmedtc",
        rows="""
MC-BERT|90.0|88.1|87.5|82.3|95.5|2.04|87.5|82.1
BioHanBERT(10K)|90.51|-|86.46|96.53|95.86|-|90.48|81.78
BioHanBERT(20K)|91.67|-|87.14|96.37|95.59|-|96.43|83.67
BioHanBERT(30K)|91.83|-|86.26|96.36|95.72|-|83.33|83.00
BioHanBERT(40K)|90.44|-|87.18|96.49|95.50|-|90.48|82.72
BioHanBERT(50K)|90.91|-|87.86|96.65|95.78|-|86.90|83.06
BERT-Base|90.19/90.50|85.05/85.29|87.06/87.43|96.03/96.09|96.05/96.11|3.03/3.07|92.43/92.89|82.99/83.78
ELECTRA-Base|91.63/92.17|86.37/86.81|87.27/87.46|95.60/95.90|95.42/95.55|3.41/3.49|90.61/92.31|83.43/83.78
ELECTRA+EM|92.10/92.85|88.18/88.53|87.56/87.89|96.55/96.78|96.66/96.78|3.64/3.71|92.48/93.26|83.73/84.00
""",
    ),
    PublishedTable(
        source="ELECTRA+EM+PAP, Table 5",
        percent=True,
        note="mean/best of five runs",
        columns="qtrel-easy qtrel-hard qic-pap qner",
        rows="""
ELECTRA-Base | 98.20/98.51 | 81.90/82.80 | 81.37/82.06 | 82.53/82.78
ELECTRA+EM+PAP | 98.67/98.95 | 84.88/85.86 | 86.90/87.26 | 88.28/88.72
ELECTRA+EM | 98.44/98.66 | 82.90/83.46 | 86.58/87.11 | 88.03/88.35
""",
    ),
    PublishedTable(
        source="CMedLMs, Table 7",
        percent=False,
        note="F1",
        columns="ccks2019-ner sahsu-ner",
        rows="""
Bare Embedding, BiLSTM.CRF | 0.6408 | 0.8129
Bare Embedding, CNN.LSTM | 0.5277 | 0.6562
Bare Embedding, BiLSTM | 0.5849 | 0.8543
Bare Embedding, BiGRU | 0.5801 | 0.8111
Bare Embedding, StaResGRU-CNN_CRF | 0.6645 | 0.8442
BERT (Original), Fine-Tuning | 0.7256 | 0.8511
BERT (official), BiLSTM.CRF | 0.7282 | 0.8549
BERT (official), CNN.LSTM | 0.6421 | 0.7953
BERT (official), BiLSTM | 0.7214 | 0.8543
BERT (official), BiGRU | 0.7221 | 0.8689
BERT (official), StaResGRU-CNN_CRF | 0.7499 | 0.8643
Word2Vec (General), BiLSTM.CRF | 0.5981 | 0.8159
Word2Vec (General), CNN.LSTM | 0.4984 | 0.6772
Word2Vec (General), BiLSTM | 0.5005 | 0.7021
Word2Vec (General), BiGRU | 0.5725 | 0.7521
Word2Vec (General), StaResGRU-CNN_CRF | 0.6551 | 0.8334
GloVe (General), BiLSTM.CRF | 0.5886 | 0.7116
GloVe (General), CNN.LSTM | 0.4641 | 0.5984
GloVe (General), BiLSTM | 0.4980 | 0.6210
GloVe (General), BiGRU | 0.5600 | 0.6279
GloVe (General), StaResGRU-CNN_CRF | 0.6056 | 0.7384
CMed-BERT, BiLSTM.CRF | 0.7516 | 0.8618
CMed-BERT, CNN.LSTM | 0.6839 | 0.7975
CMed-BERT, BiLSTM | 0.7303 | 0.8612
CMed-BERT, BiGRU | 0.7367 | 0.8716
CMed-BERT, StaResGRU-CNN_CRF | 0.7632 | 0.8864
CMed-Word2Vec (Char-Level), BiLSTM.CRF | 0.7043 | 0.8227
CMed-Word2Vec (Char-Level), CNN.LSTM | 0.5869 | 0.7284
CMed-Word2Vec (Char-Level), BiLSTM | 0.6731 | 0.8224
CMed-Word2Vec (Char-Level), BiGRU | 0.7133 | 0.8459
CMed-Word2Vec (Char-Level), StaResGRU-CNN_CRF | 0.7229 | 0.8448
CMed-Word2Vec (Word-Level), BiLSTM.CRF | 0.6859 | 0.8248
CMed-Word2Vec (Word-Level), CNN.LSTM | 0.5340 | 0.7182
CMed-Word2Vec (Word-Level), BiLSTM | 0.6330 | 0.8083
CMed-Word2Vec (Word-Level), BiGRU | 0.6349 | 0.8125
CMed-Word2Vec (Word-Level), StaResGRU-CNN_CRF | 0.7287 | 0.8701
CMed-GloVe (Char-Level), BiLSTM.CRF | 0.6462 | 0.8057
CMed-GloVe (Char-Level), CNN.LSTM | 0.4554 | 0.7004
CMed-GloVe (Char-Level), BiLSTM | 0.5046 | 0.7231
CMed-GloVe (Char-Level), BiGRU | 0.5415 | 0.7595
CMed-GloVe (Char-Level), StaResGRU-CNN_CRF | 0.6577 | 0.8355
CMed-GloVe (Word-Level), BiLSTM.CRF | 0.6113 | 0.8111
CMed-GloVe (Word-Level), CNN.LSTM | 0.4465 | 0.6925
CMed-GloVe (Word-Level), BiLSTM | 0.5005 | 0.7208
CMed-GloVe (Word-Level), BiGRU | 0.5757 | 0.7573
CMed-GloVe (Word-Level), StaResGRU-CNN_CRF | 0.6632 | 0.8373
""",
    ),
    PublishedTable(
        source="CMedLMs, Table 8",
        percent=False,
        note="F1",
        columns="cmed-classification",
        rows="""
GloVe (General), CNN-LSTM | 0.9383
GloVe (General), CNN | 0.9304
GloVe (General), BiLSTM | 0.9265
GloVe (General), StaResGRU-CNN | 0.9542
GloVe (General), DPCNN | 0.6450
BERT (official), CNN-LSTM | 0.9572
BERT (official), CNN | 0.9494
BERT (official), BiLSTM | 0.9578
BERT (official), StaResGRU-CNN | 0.9612
BERT (official), DPCNN | 0.9339
CMed-Word2Vec (Char-Level), CNN-LSTM | 0.9386
CMed-Word2Vec (Char-Level), CNN | 0.9105
CMed-Word2Vec (Char-Level), BiLSTM | 0.9424
CMed-Word2Vec (Char-Level), StaResGRU-CNN | 0.9562
CMed-Word2Vec (Char-Level), DPCNN | 0.8826
CMed-GloVe (Char-Level), CNN-LSTM | 0.9476
CMed-GloVe (Char-Level), CNN | 0.9320
CMed-GloVe (Char-Level), BiLSTM | 0.9419
CMed-GloVe (Char-Level), StaResGRU-CNN | 0.9538
CMed-GloVe (Char-Level), DPCNN | 0.9232
Bare Embedding, CNN-LSTM | 0.9211
Bare Embedding, CNN | 0.9429
Bare Embedding, BiLSTM | 0.9425
Bare Embedding, StaResGRU-CNN | 0.9496
Bare Embedding, DPCNN | 0.9070
Word2Vec (General), CNN-LSTM | 0.9460
Word2Vec (General), CNN | 0.9389
Word2Vec (General), BiLSTM | 0.9469
Word2Vec (General), StaResGRU-CNN | 0.9528
Word2Vec (General), DPCNN | 0.7413
CMed-BERT, CNN-LSTM | 0.9599
CMed-BERT, CNN | 0.9509
CMed-BERT, BiLSTM | 0.9555
CMed-BERT, StaResGRU-CNN | 0.9619
CMed-BERT, DPCNN | 0.9432
CMed-Word2Vec (Word-Level), CNN-LSTM | 0.9431
CMed-Word2Vec (Word-Level), CNN | 0.9299
CMed-Word2Vec (Word-Level), BiLSTM | 0.9385
CMed-Word2Vec (Word-Level), StaResGRU-CNN | 0.9579
CMed-Word2Vec (Word-Level), DPCNN | 0.9342
CMed-GloVe (Word-Level), CNN-LSTM | 0.9421
CMed-GloVe (Word-Level), CNN | 0.9296
CMed-GloVe (Word-Level), BiLSTM | 0.9422
CMed-GloVe (Word-Level), StaResGRU-CNN | 0.9537
CMed-GloVe (Word-Level), DPCNN | 0.8248
BERT (Original), Fine-Tuning | 0.9528
""",
    ),
    PublishedTable(
        source="CMedLMs, Table 9",
        percent=False,
        note="F1",
        columns="disease-diagnosis",
        rows="""
GloVe (General), CNN-LSTM | 0.2013
GloVe (General), CNN | 0.5293
GloVe (General), BiGRU | 0.4648
GloVe (General), CNN-GRU | 0.4040
GloVe (General), BiLSTM | 0.3448
GloVe (General), Dropout-BiGRU | 0.5309
GloVe (General), Dropout-AVRNN | 0.4691
GloVe (General), AVRNN | 0.6674
GloVe (General), AVCNN | 0.6054
GloVe (General), StaResGRU-CNN | 0.6113
BERT (official), CNN-LSTM | 0.3823
BERT (official), CNN | 0.5103
BERT (official), BiGRU | 0.5741
BERT (official), CNN-GRU | 0.5791
BERT (official), BiLSTM | 0.5657
BERT (official), Dropout-BiGRU | 0.6310
BERT (official), Dropout-AVRNN | 0.6417
BERT (official), AVRNN | 0.6488
BERT (official), AVCNN | 0.6486
BERT (official), StaResGRU-CNN | 0.7028
CMed-Word2Vec (Char-Level), CNN-LSTM | 0.3159
CMed-Word2Vec (Char-Level), CNN | 0.5722
CMed-Word2Vec (Char-Level), BiGRU | 0.4267
CMed-Word2Vec (Char-Level), CNN-GRU | 0.4365
CMed-Word2Vec (Char-Level), BiLSTM | 0.4568
CMed-Word2Vec (Char-Level), Dropout-BiGRU | 0.6448
CMed-Word2Vec (Char-Level), Dropout-AVRNN | 0.6903
CMed-Word2Vec (Char-Level), AVRNN | 0.6989
CMed-Word2Vec (Char-Level), AVCNN | 0.4077
CMed-Word2Vec (Char-Level), StaResGRU-CNN | 0.7427
CMed-GloVe (Char-Level), CNN-LSTM | 0.2797
CMed-GloVe (Char-Level), CNN | 0.6052
CMed-GloVe (Char-Level), BiGRU | 0.4883
CMed-GloVe (Char-Level), CNN-GRU | 0.5017
CMed-GloVe (Char-Level), BiLSTM | 0.3950
CMed-GloVe (Char-Level), Dropout-BiGRU | 0.6896
CMed-GloVe (Char-Level), Dropout-AVRNN | 0.5275
CMed-GloVe (Char-Level), AVRNN | 0.6540
CMed-GloVe (Char-Level), AVCNN | 0.6816
CMed-GloVe (Char-Level), StaResGRU-CNN | 0.7450
Bare Embedding, CNN-LSTM | 0.2931
Bare Embedding, CNN | 0.4719
Bare Embedding, BiGRU | 0.5000
Bare Embedding, CNN-GRU | 0.1720
Bare Embedding, BiLSTM | 0.3205
Bare Embedding, Dropout-BiGRU | 0.4812
Bare Embedding, Dropout-AVRNN | 0.6019
Bare Embedding, AVRNN | 0.5347
Bare Embedding, AVCNN | 0.6463
Bare Embedding, StaResGRU-CNN | 0.5845
Word2Vec (General), CNN-LSTM | 0.2315
Word2Vec (General), CNN | 0.5950
Word2Vec (General), BiGRU | 0.4002
Word2Vec (General), CNN-GRU | 0.4407
Word2Vec (General), BiLSTM | 0.3666
Word2Vec (General), Dropout-BiGRU | 0.5792
Word2Vec (General), Dropout-AVRNN | 0.5920
Word2Vec (General), AVRNN | 0.5677
Word2Vec (General), AVCNN | 0.6259
Word2Vec (General), StaResGRU-CNN | 0.6457
CMed-BERT, CNN-LSTM | 0.5285
CMed-BERT, CNN | 0.5448
CMed-BERT, BiGRU | 0.5631
CMed-BERT, CNN-GRU | 0.5745
CMed-BERT, BiLSTM | 0.6136
CMed-BERT, Dropout-BiGRU | 0.6730
CMed-BERT, Dropout-AVRNN | 0.6745
CMed-BERT, AVRNN | 0.6911
CMed-BERT, AVCNN | 0.6800
CMed-BERT, StaResGRU-CNN | 0.7348
CMed-Word2Vec (Word-Level), CNN-LSTM | 0.3684
CMed-Word2Vec (Word-Level), CNN | 0.6289
CMed-Word2Vec (Word-Level), BiGRU | 0.4577
CMed-Word2Vec (Word-Level), CNN-GRU | 0.5268
CMed-Word2Vec (Word-Level), BiLSTM | 0.4236
CMed-Word2Vec (Word-Level), Dropout-BiGRU | 0.6628
CMed-Word2Vec (Word-Level), Dropout-AVRNN | 0.7278
CMed-Word2Vec (Word-Level), AVRNN | 0.7040
CMed-Word2Vec (Word-Level), AVCNN | 0.6147
CMed-Word2Vec (Word-Level), StaResGRU-CNN | 0.7252
CMed-GloVe (Word-Level), CNN-LSTM | 0.3197
CMed-GloVe (Word-Level), CNN | 0.6174
CMed-GloVe (Word-Level), BiGRU | 0.4432
CMed-GloVe (Word-Level), CNN-GRU | 0.4369
CMed-GloVe (Word-Level), BiLSTM | 0.3662
CMed-GloVe (Word-Level), Dropout-BiGRU | 0.6628
CMed-GloVe (Word-Level), Dropout-AVRNN | 0.6156
CMed-GloVe (Word-Level), AVRNN | 0.6354
CMed-GloVe (Word-Level), AVCNN | 0.6903
CMed-GloVe (Word-Level), StaResGRU-CNN | 0.7660
BERT (Original), Fine-Tuning | 0.6316
""",
    ),
)
