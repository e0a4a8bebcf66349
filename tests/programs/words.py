"""Skip-grams with negative samples: two embeddings, a closure for LBFGS behind, nearest words."""

from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = """the quick brown fox jumps over the lazy dog the dog sleeps the fox runs over the hill
a quick dog and a brown fox run over the lazy hill and sleep""".split()


class SkipGram(nn.Module):
    def __init__(self, n_vocab, n_embed, noise_dist=None):
        super().__init__()
        self.n_vocab, self.n_embed, self.noise_dist = n_vocab, n_embed, noise_dist
        self.in_embed = nn.Embedding(n_vocab, n_embed)
        self.out_embed = nn.Embedding(n_vocab, n_embed)
        self.in_embed.weight.data.uniform_(-1, 1)
        self.out_embed.weight.data.uniform_(-1, 1)

    def forward_noise(self, batch_size, n_samples):
        noise_words = torch.multinomial(self.noise_dist, batch_size * n_samples, replacement=True)
        assert noise_words.max() < self.n_vocab
        fixed = torch.arange(batch_size * n_samples, device=noise_words.device) % self.n_vocab
        return self.out_embed(fixed).view(batch_size, n_samples, self.n_embed)


class NegativeSamplingLoss(nn.Module):
    def forward(self, input_vectors, output_vectors, noise_vectors):
        batch_size, embed_size = input_vectors.shape
        input_vectors = input_vectors.view(batch_size, embed_size, 1)
        output_vectors = output_vectors.view(batch_size, 1, embed_size)
        out_loss = torch.bmm(output_vectors, input_vectors).sigmoid().log()
        out_loss = out_loss.squeeze()
        noise_loss = torch.bmm(noise_vectors.neg(), input_vectors).sigmoid().log()
        noise_loss = noise_loss.squeeze().sum(1)
        return -(out_loss + noise_loss).mean()


def cosine_similarity(embedding, valid_examples):
    embed_vectors = embedding.weight
    magnitudes = embed_vectors.pow(2).sum(dim=1).sqrt().unsqueeze(0)
    valid_vectors = embedding(valid_examples)
    return torch.mm(valid_vectors, embed_vectors.t()) / magnitudes


def main():
    counts = Counter(TEXT)
    vocab = sorted(counts, key=counts.get, reverse=True)
    to_int = {word: i for i, word in enumerate(vocab)}
    ints = [to_int[word] for word in TEXT]
    pairs = [
        (ints[i], ints[j]) for i in range(len(ints)) for j in (i - 1, i + 1) if 0 <= j < len(ints)
    ]
    freqs = np.array([counts[w] / len(TEXT) for w in vocab])
    noise_dist = torch.from_numpy(freqs**0.75 / np.sum(freqs**0.75))
    model = SkipGram(len(vocab), 4, noise_dist=noise_dist)
    rng = np.random.RandomState(0)
    for parameter in model.parameters():
        parameter.data = torch.from_numpy(rng.uniform(-1, 1, parameter.shape)).to(torch.float32)
    criterion = NegativeSamplingLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    numbers = []
    for start in range(0, len(pairs), 16):
        batch = pairs[start : start + 16]
        inputs, targets = (
            torch.LongTensor([a for a, _ in batch]),
            torch.LongTensor([b for _, b in batch]),
        )
        loss = criterion(
            model.in_embed(inputs), model.out_embed(targets), model.forward_noise(len(batch), 3)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers.append(loss.item())
    valid_similarities = cosine_similarity(model.in_embed, torch.tensor([0, 1, 2]))
    _, closest_idxs = valid_similarities.topk(3)
    sums = closest_idxs.to("cpu").sum().item()
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=4)
    inputs, targets = (torch.tensor(each) for each in zip(*pairs))

    def closure():
        lbfgs.zero_grad()
        noise = model.forward_noise(len(pairs), 3)
        loss = criterion(model.in_embed(inputs), model.out_embed(targets), noise)
        loss.backward()
        return loss

    for _ in range(2):
        numbers.append(float(lbfgs.step(closure)))
    similarity = F.cosine_similarity(model.in_embed.weight[0:1], model.in_embed.weight[1:])
    return [*numbers, float(sums), *similarity.detach().numpy().tolist()]


if __name__ == "__main__":
    print(main())
