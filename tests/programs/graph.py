"""Graph convolution and attention on a small graph, with messages added by index."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return self.__class__.__name__ + f" ({self.in_features} -> {self.out_features})"


class EdgeAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(dim, dim, bias=False)
        self.att = nn.Parameter(torch.empty(1, heads, 2 * dim // heads))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index):
        src, dst = edge_index
        n, c = x.shape
        h = self.lin(x).view(n, self.heads, c // self.heads)
        e = F.leaky_relu((torch.cat([h[src], h[dst]], dim=-1) * self.att).sum(-1), 0.2)
        e = e - e.max()
        e = e.exp()
        total = torch.zeros(n, self.heads, device=x.device).index_add_(0, dst, e)
        alpha = e / (total[dst] + 1e-16)
        out = torch.zeros_like(h).index_add(0, dst, alpha.unsqueeze(-1) * h[src])
        degree = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.numel()))
        return out.reshape(n, c) / degree.clamp(min=1).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gat, self.gc2 = (
            GraphConvolution(5, 8),
            EdgeAttention(8, 2),
            GraphConvolution(8, 3),
        )

    def forward(self, x, adj, edge_index):
        x = F.relu(self.gc1(x, adj))
        x = F.elu(self.gat(x, edge_index))
        x = F.dropout(x, 0.0, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


def main():
    rng = np.random.RandomState(4)
    n = 12
    adj = (rng.rand(n, n) < 0.3).astype(np.float32)
    adj = np.maximum(adj, adj.T) + np.eye(n, dtype=np.float32)
    edge_index = torch.tensor(np.stack(np.nonzero(adj)), dtype=torch.long)
    adj = torch.from_numpy(adj)
    deg_inv_sqrt = adj.sum(1).pow(-0.5)
    deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
    adj = deg_inv_sqrt.view(-1, 1) * adj * deg_inv_sqrt.view(1, -1)
    features = torch.FloatTensor(rng.rand(n, 5).astype(np.float32))
    features = features / features.sum(1, keepdim=True)
    labels = torch.LongTensor(rng.randint(0, 3, n))
    idx_train, idx_val = torch.arange(8), torch.arange(8, n)
    model = Net()
    for p in model.parameters():
        p.data.copy_(torch.from_numpy(rng.uniform(-0.5, 0.5, tuple(p.shape))).float())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    numbers = []
    for _epoch in range(5):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj, edge_index)
        loss_train = F.nll_loss(output[idx_train], labels[idx_train])
        loss_train.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            output = model(features, adj, edge_index)
        numbers += [loss_train.item(), F.nll_loss(output[idx_val], labels[idx_val]).item()]
    assert "(5 -> 8)" in repr(model)
    return [
        *numbers,
        accuracy(output[idx_val], labels[idx_val]).item(),
        torch.isfinite(output).all().item(),
    ]


if __name__ == "__main__":
    print(main())
