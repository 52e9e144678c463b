#!/usr/bin/env python3
"""check_eval.py MODEL DATA.json: loss and accuracy of transformers' own classifier in the folder MODEL, as one JSON object.

DATA.json: {"labels": [...], "texts": [...]} or {"labels": [...], "images": [...]}, each image (height, width, channels) of 0 to 255.
The folder's own tokenizer or image processor makes the input. Seen with torch 1.13.1 and transformers 4.41.2.
"""
import json
import sys

import numpy
import torch
import transformers

folder, data = sys.argv[1], json.load(open(sys.argv[2]))
config = transformers.AutoConfig.from_pretrained(folder)
model_class = getattr(transformers, config.architectures[0])
model = model_class.from_pretrained(folder, torch_dtype=torch.float64).eval()
logits = []
with torch.no_grad():
    if "images" in data:
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        for image in data["images"]:
            pixels = processor(numpy.array(image, dtype=numpy.uint8), return_tensors="pt", input_data_format="channels_last")
            logits.append(model(pixels["pixel_values"].double()).logits)
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for text in data["texts"]:
            logits.append(model(**tokenizer(text, truncation=True, max_length=config.max_position_embeddings, return_tensors="pt")).logits)
logits, labels = torch.cat(logits), torch.tensor(data["labels"])
print(json.dumps({"loss": torch.nn.functional.cross_entropy(logits, labels).item(),
                  "accuracy": (logits.argmax(1) == labels).double().mean().item()}))
