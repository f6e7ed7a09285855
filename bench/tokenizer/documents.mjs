// The documents to time: English prose and source code from this repository, Chinese from a small
// grammar. Deterministic for one state of the repository.
import fs from 'node:fs';
import path from 'node:path';

const kKindBytes = 400_000;  // of each kind and length, about
export const kLengths = [400, 4000];

// mulberry32, so that every Node makes the same documents.
function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const bytes = (text) => Buffer.byteLength(text, 'utf8');

/// `parts` joined in order, over and over until there are enough, into documents of at least `length` bytes.
function pack(parts, length, separator) {
  const documents = [];
  let document = '';
  let total = 0;
  for (let i = 0; total < kKindBytes; ++i) {
    document += parts[i % parts.length] + separator;
    if (bytes(document) < length) continue;
    documents.push(document);
    total += bytes(document);
    document = '';
  }
  return documents;
}

/// Definitions and examples of WordNet (wide vocabulary), and the paragraphs of the documentation.
function english(source, length) {
  const wordnet = fs.readFileSync(path.join(source, 'models/espalier-mini/eval_wordnet.jsonl'), 'utf8')
    .trim().split('\n').map((line) => JSON.parse(line)).map(({ query, passage }) => `${passage}. ${query}.`);
  const paragraphs = ['README.md', 'docs/ARCHITECTURE.md', 'docs/NUMERICS.md', 'docs/API.md']
    .flatMap((file) => fs.readFileSync(path.join(source, file), 'utf8').split('\n\n'))
    .filter((paragraph) => /^[A-Z]/.test(paragraph));
  const every = Math.floor(wordnet.length / paragraphs.length);
  const mixed = wordnet.flatMap((text, i) => (i % every || !paragraphs[i / every] ? [text]
    : [text, paragraphs[i / every]]));
  return pack(mixed, length, ' ');
}

/// Lines of this repository's C++, JavaScript and Python, in their order.
function sourceCode(source, length) {
  const lines = [];
  for (const folder of ['text', 'engine', 'server', 'scheduler', 'models', 'tests/tokenizer_parity', 'bench/peers',
    'models/espalier-mini/training']) {
    for (const name of fs.readdirSync(path.join(source, folder)).sort()) {
      if (!/\.(h|cpp|py|mjs)$/.test(name)) continue;
      lines.push(...fs.readFileSync(path.join(source, folder, name), 'utf8').split('\n'));
    }
  }
  return pack(lines, length, '\n');
}

// Words by falling frequency, about.
const kChineseWords = `的 是 在 了 不 和 有 我 他 这 人 们 中 来 上 大 为 个 国 说 到 以 要 就 出 会 可 也 你 对 生 能 而 子 那 得 于 着 下 自 之 年
我们 他们 一个 没有 可以 自己 这个 什么 中国 问题 时候 工作 知道 就是 因为 现在 如果 大家 已经 社会 发展 进行 通过 重要 不同 生活 经济 研究 国家
公司 技术 系统 数据 方法 信息 学生 世界 历史 文化 教育 政府 城市 市场 企业 产品 服务 管理 建设 项目 网络 模型 语言 文本 搜索 结果 用户 查询 文档
相关 时间 地方 情况 部分 方面 关系 能力 水平 影响 需要 使用 提供 认为 表示 开始 成为 以及 主要 目前 其中 由于 根据 人民 北京 上海 香港 美国 日本
今天 昨天 明年 去年 上午 晚上 孩子 母亲 父亲 朋友 老师 医生 学校 医院 银行 火车 飞机 汽车 道路 天气 春天 夏天 秋天 冬天 山 水 河 海 风 雨 雪 树 花
非常 特别 比较 几乎 终于 突然 慢慢 渐渐 仍然 曾经 大约 至少 共同 直接 完全 必须 应该 可能 希望 喜欢 觉得 发现 看到 听说 告诉 回答 决定 选择 准备
继续 停止 增加 减少 提高 降低 改变 保持 解决 处理 分析 计算 测量 比例 速度 温度 质量 数量 价格 成本 利润 投资 风险 安全 环境 资源 能源 电力 石油
科学家 工程师 研究人员 人工智能 机器学习 神经网络 计算机 互联网 图书馆 博物馆 大学 教授 论文 实验 理论 证明 定义 概念 原则 结构 功能 性能 优化 编码
向量 检索 排序 推理 训练 参数 内存 处理器 操作系统 数据库 软件 硬件 开源 社区 协议 接口 函数 变量 循环 条件 错误 测试 部署 监控 日志 缓存 并发
葡萄 苹果 茶叶 咖啡 米饭 面条 豆腐 蔬菜 牛肉 海鲜 厨房 餐厅 旅行 酒店 机场 护照 签证 风景 摄影 音乐 电影 小说 诗歌 绘画 书法 戏剧 舞蹈 体育 足球
篮球 比赛 冠军 奖牌 健康 疾病 药物 治疗 手术 疫苗 细胞 基因 蛋白质 营养 运动 睡眠 压力 情绪 心理 记忆 注意力 法律 合同 法院 律师 证据 责任 权利
义务 宪法 选举 总统 外交 军队 战争 和平 条约 边境 移民 贸易 关税 货币 通货膨胀 股票 债券 基金 保险 税收 预算 赤字 债务 破产 重组 并购 垄断 竞争`.split(/\s+/);

/// Clauses of words by Zipf's law, of 3 to 12 words; few occur twice.
function chinese(length) {
  const random = randomFrom(7);
  const weights = kChineseWords.map((_, rank) => 1 / (rank + 3));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const word = () => {
    let left = random() * total;
    return kChineseWords[Math.max(0, weights.findIndex((weight) => (left -= weight) < 0))];
  };
  const number = () => (random() < 0.06 ? String(Math.floor(random() * 3000)) : '');
  const clauses = Array.from({ length: 20_000 }, () =>
    Array.from({ length: 3 + Math.floor(random() * 10) }, word).join('') + number() + '，，，、。。；：？！'[Math.floor(random() * 10)]);
  return pack(clauses, length, '');
}

/// [{ kind, length, documents }]
export function makeDocuments(source) {
  return kLengths.flatMap((length) => [
    { kind: 'English', length, documents: english(source, length) },
    { kind: 'Chinese', length, documents: chinese(length) },
    { kind: 'source code', length, documents: sourceCode(source, length) },
  ]);
}
