"""Static word vectors of a corpus: Word2Vec and GloVe, at the level of words and of characters (CMedLMs).

    segments → embedding_counts → embedding_words → word_sequences → word2vec
                                                                   → cooccurrences → glove

Both end in an artifact that `models.word_vectors.WordVectors.open` maps and gensim's `KeyedVectors.load` loads.
"""
