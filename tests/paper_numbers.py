"""The numbers of the paper's tables and figures, transcribed once, by hand, from its text.

Nothing here is computed and nothing is read from the configs: tests compare `configs/paper/` with this file. A row is a
name with its values in the order of `columns`; None where the paper has no number.
"""

from __future__ import annotations

from typing import Any

TYPES = ["Fact", "Reason", "Summ.", "Creat.", "Avg."]

TABLES: dict[str, dict[str, Any]] = {
    "Table 1": {
        "columns": [
            *("Medical Fact", "Medical Reason", "Medical Summ.", "Medical Creat.", "Medical Avg."),
            *("Novel Fact", "Novel Reason", "Novel Summ.", "Novel Creat.", "Novel Avg."),
            *("HotpotQA", "2Wiki", "MuSiQue", "Multi-hop Avg.", "Avg."),
        ],
        "rows": {
            "RAG (w/o rerank)": [
                *(63.7, 57.6, 63.7, 58.9, 61.0, 58.7, 41.4, 50.1, 41.5, 47.9, 54.0, 31.8, 32.2, 39.3, 50.3)
            ],
            "RAG (w rerank)": [
                *(64.7, 58.6, 65.8, 60.6, 62.4, 60.9, 42.9, 51.3, 38.3, 48.3, 54.5, 32.1, 33.3, 40.0, 51.2)
            ],
            "MS-GraphRAG (local)": [
                *(38.6, 47.0, 41.8, 53.1, 45.1, 49.3, 50.9, 64.4, 39.1, 50.9, 52.2, 37.4, 37.8, 42.5, 46.5)
            ],
            "MS-GraphRAG (global)": [
                *(16.4, 15.6, 19.8, 20.8, 18.1, 36.9, 43.2, 56.9, 41.1, 44.5, 37.6, 39.5, 35.4, 37.5, 33.0)
            ],
            "HippoRAG": [*(56.1, 55.8, 59.8, 64.4, 59.0, 52.9, 38.5, 48.7, 38.9, 44.8, 38.1, 29.8, 25.7, 31.2, 46.2)],
            "HippoRAG2": [*(66.3, 61.9, 63.1, 68.1, 64.8, 60.1, 53.4, 64.1, 48.3, 56.5, 67.5, 47.5, 41.5, 52.2, 58.3)],
            "LightRAG": [*(63.3, 61.3, 63.1, 67.9, 63.9, 58.6, 49.1, 48.9, 23.8, 45.1, 57.0, 44.2, 23.5, 41.6, 51.0)],
            "Fast-GraphRAG": [
                *(60.9, 61.7, 67.9, 65.9, 64.1, 56.9, 48.5, 56.4, 46.2, 52.0, 62.3, 47.8, 42.1, 50.7, 56.1)
            ],
            "RAPTOR": [*(54.0, 53.2, 58.7, 62.4, 57.1, 49.3, 38.6, 47.1, 38.0, 43.2, 66.4, 50.1, 43.6, 53.4, 51.0)],
            "Lazy-GraphRAG": [
                *(60.3, 47.8, 57.3, 62.2, 56.9, 51.7, 49.2, 58.3, 43.2, 50.6, 54.6, 40.4, 39.1, 44.7, 51.3)
            ],
            "KGP": [*(52.3, 51.5, 54.5, 63.8, 55.5, 54.2, 46.3, 51.2, 40.3, 48.0, 52.3, 38.6, 37.2, 42.7, 49.3)],
            "StructRAG": [*(55.4, 56.2, 62.5, 60.2, 58.6, 53.8, 46.3, 54.3, 42.2, 49.1, 49.2, 52.3, 24.9, 42.1, 50.7)],
            "KET-RAG": [*(60.4, 39.6, 45.3, 43.0, 47.1, 55.4, 36.6, 52.5, 46.0, 47.6, 45.6, 24.5, 22.6, 30.9, 42.9)],
            "GFM-RAG": [*(63.5, 67.3, 51.5, 63.3, 61.4, 51.0, 49.8, 66.3, 57.8, 56.2, 68.6, 43.6, 39.9, 50.7, 56.6)],
            "Ours": [*(72.6, 74.8, 76.8, 68.3, 73.1, 61.0, 53.4, 68.5, 60.0, 60.7, 70.5, 56.8, 50.9, 59.4, 64.9)],
        },
    },
    "Table 2": {
        "columns": ["HotpotQA", "Medical", "Novel", "Avg."],
        "rows": {
            "AtomicRAG": [70.5, 73.2, 60.7, 68.1],
            "w/o ERGR": [68.4, 72.0, 59.1, 66.5],
            "w/o AQD": [67.8, 72.3, 60.0, 66.7],
            "w/o AS": [68.0, 71.5, 59.8, 66.4],
            "w/o KA": [62.2, 64.3, 52.7, 59.7],
            "w/o {ERGR, AQD}": [66.0, 70.8, 58.6, 65.1],
            "w/o {ERGR, AQD, AS}": [64.5, 69.5, 57.5, 63.8],
            "w/o {ERGR, AQD, AS, KA}": [54.0, 61.0, 47.9, 54.3],
        },
    },
    "Table 3": {
        "columns": ["#Nodes", "#Edges", "Avg. degree", "Avg. clustering"],
        "rows": {
            "KET-RAG": [3134, 2421, 1.55, 0.24],
            "LightRAG": [1942, 2220, 2.29, 0.09],
            "HippoRAG2": [10660, 119489, 22.42, 0.38],
            "GFM-RAG": [9569, 40444, 8.45, 0.29],
            "Ours": [14586, 146115, 23.04, 0.39],
        },
    },
    "Table 4": {
        "columns": [
            *("Index tokens (M)", "Index prompt (M)", "Index completion (M)"),
            *("QA tokens (M)", "QA prompt (M)", "QA completion (M)"),
            *("Total tokens (M)", "Latency (s/q)", "ACC (%)"),
        ],
        "rows": {
            "Vanilla RAG": [0.00, 0.00, 0.00, 2.87, 2.68, 0.19, 2.87, 0.01, 62.4],
            "KET-RAG": [2.31, 1.74, 0.57, 24.45, 24.42, 0.03, 26.76, 2.73, 47.1],
            "LightRAG": [2.66, 2.35, 0.31, 61.51, 60.74, 0.77, 64.17, 13.99, 63.9],
            "HippoRAG2": [1.54, 1.18, 0.36, 4.29, 3.96, 0.34, 5.83, 4.50, 64.9],
            "GFM-RAG": [1.52, 1.19, 0.33, 2.08, 1.72, 0.36, 3.60, 6.08, 61.4],
            "Ours": [2.24, 1.67, 0.56, 2.63, 1.97, 0.67, 4.87, 0.79, 73.2],
        },
    },
    "Table 6": {
        "columns": ["#Nodes", "#Entities", "#Atoms", "#Edges", "#Related", "#Synonym", "#Containment"],
        "rows": {
            "HotpotQA": [112995, 84592, 28403, 479895, 177734, 276577, 25584],
            "MuSiQue": [118218, 87446, 30772, 488497, 175794, 286923, 25780],
            "2WikiMultiHop": [59782, 44750, 15032, 234008, 93446, 125422, 15140],
            "Medical": [14647, 9087, 5560, 143919, 21068, 99707, 23144],
            "Novel": [59807, 40217, 19590, 176948, 75665, 83481, 17802],
        },
    },
    "Table 7": {
        "columns": [
            *("Time (s)", "Time share (%)", "Prompt tokens", "Completion tokens", "Total tokens", "Token share (%)"),
            *("Prompt cost (USD)", "Completion cost (USD)", "Total cost (USD)"),
        ],
        "rows": {
            "Atom–Entity Graph Construction": [188.84, 9.4, 1673875, 563101, 2236976, 13.8, 0.251, 0.338, 0.589],
            "Atomic Question Decomposition": [111.60, 5.5, 739474, 303724, 1043198, 6.5, 0.111, 0.182, 0.293],
            "Entity-Resonance Graph Retrieval": [735.80, 36.5, None, None, None, None, None, None, None],
            "Atomic Sieve": [210.69, 10.4, 10098938, 158475, 10257413, 63.4, 1.515, 0.095, 1.610],
            "Grounded Answer Generation": [210.33, 10.4, 1967021, 666828, 2633849, 16.3, 0.295, 0.400, 0.695],
            "Total": [2018.46, 100, 14479308, 1692128, 16171436, 100, 2.172, 1.015, 3.187],
        },
    },
    "Table 8": {
        "columns": TYPES,
        "rows": {
            "bge-large-en-v1.5": [72.6, 74.8, 76.8, 68.3, 73.1],
            "gte-qwen2 (1.5B)": [70.9, 74.3, 76.2, 66.7, 72.0],
            "gte-large": [71.4, 73.7, 76.2, 66.3, 71.9],
            "nomic-embed": [71.1, 73.4, 77.3, 65.7, 71.9],
            "bge-m3": [71.7, 74.3, 75.1, 66.4, 71.8],
            "e5-large": [70.2, 71.5, 75.1, 66.7, 70.9],
        },
    },
    "Table 10": {
        "columns": TYPES,
        "rows": {
            "GPT-4o-mini": [72.6, 74.8, 76.8, 68.3, 73.1],
            "DeepSeek-V3": [69.3, 73.0, 79.5, 67.0, 72.2],
            "Qwen2.5-14B-Instruct": [68.2, 71.1, 74.9, 68.9, 70.8],
            "Qwen2.5-7B-Instruct": [64.7, 69.2, 73.2, 65.3, 68.1],
            "Llama-3.1-8B-Instruct": [64.7, 67.8, 70.8, 62.5, 66.5],
        },
    },
    "Table 11": {
        "columns": [*TYPES, "Time (s/q)"],
        "rows": {
            "PPR (Baseline)": [72.6, 74.8, 76.8, 68.3, 73.1, 0.79],
            "RWR": [62.4, 70.9, 74.5, 65.0, 68.2, 0.78],
            "Power Iteration": [70.7, 73.3, 78.6, 67.9, 72.6, 18.67],
            "Katz Index": [70.7, 73.0, 76.9, 65.7, 71.6, 20.28],
            "Label Propagation": [67.2, 71.5, 71.9, 65.5, 69.0, 1.38],
            "Weighted BFS": [61.0, 68.1, 69.8, 64.3, 65.8, 13.37],
        },
    },
    "Table 12": {
        "columns": TYPES,
        "rows": {
            "0.1": [71.8, 72.6, 77.2, 67.2, 72.2],
            "0.2": [69.8, 72.5, 75.7, 66.3, 71.1],
            "0.3": [72.6, 74.8, 76.8, 68.3, 73.1],
            "0.4": [70.5, 72.9, 74.9, 66.1, 71.1],
            "0.5": [71.3, 73.2, 76.5, 65.6, 71.7],
            "0.6": [69.8, 72.3, 75.1, 67.2, 71.1],
            "0.7": [71.9, 72.9, 76.5, 67.9, 72.3],
            "0.8": [65.1, 70.6, 69.6, 64.8, 67.5],
            "0.9": [61.7, 67.6, 69.2, 66.4, 66.2],
        },
    },
    "Table 13": {
        "columns": TYPES,
        "rows": {
            "0.01": [71.1, 72.8, 76.2, 67.5, 71.9],
            "0.05": [71.3, 73.2, 76.5, 65.6, 71.7],
            "0.1": [72.6, 74.8, 76.8, 68.3, 73.1],
            "0.2": [70.0, 72.7, 75.1, 64.4, 70.6],
            "0.3": [69.6, 72.9, 74.7, 65.2, 70.6],
            "0.4": [69.9, 72.6, 74.4, 64.4, 70.3],
            "0.5": [69.2, 72.1, 73.3, 64.0, 69.7],
            "0.6": [68.4, 70.9, 73.8, 60.4, 68.4],
            "0.7": [64.2, 66.1, 69.5, 60.9, 65.2],
            "0.8": [62.7, 67.7, 69.7, 59.4, 64.9],
            "0.9": [59.5, 62.0, 64.1, 58.7, 61.1],
            "1.0": [59.0, 62.2, 62.6, 55.3, 59.8],
        },
    },
    # Figures have no printed numbers; these are the ones that the text gives (sections 4.4 and 4.5).
    "Figure 3": {
        "columns": ["Correctness", "Relevance", "Consistency", "Redundancy", "Comprehensiveness"],
        "rows": {"KET-RAG": [None, None, None, None, 6.70], "Ours": [None, None, None, None, 6.60]},
    },
    "Figure 4": {
        "columns": [*TYPES, "Tokens"],
        "rows": {"1": [None, None, None, None, None, 3245], "25": [None, None, None, None, None, 6230]},
    },
    "Figure 5": {"columns": ["ACC (%)"], "rows": {"512": [70.8]}},
}

# Table 5, the default settings, by the table's own names.
DEFAULTS: dict[str, Any] = {
    "LLM": "gpt-4o-mini",
    "Embedding model": "BAAI/bge-large-en-v1.5",
    "embedding_max_seq_len": 2048,
    "retrieval_top_k": 25,
    "synonymy_edge_topk": 2047,
    "synonymy_edge_sim_threshold": 0.8,
    "entity_node_weight": 1.0,
    "entity_top_k": 20,
    "entity_sim_threshold": 0.3,
    "propagation_method": "ppr",
    "damping": 0.3,
    "passage_node_weight": 0.1,
    "propagation_num_iter": 20,
    "propagation_num_walks": 1000,
    "propagation_walk_length": 10,
    "max_sub_questions": 3,
    "complexity_threshold": 6.5,
}
