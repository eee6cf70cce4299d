"use strict";
// The page of the service: a record goes to the endpoints that are offered, and their answers are shown.
// Answers count characters (code points), so texts are arrays of characters here.

const TEXTS = {
  zh: {
    other: "English", skip: "跳到结果", about: "病历去标识、实体标注与诊断编码", docs: "接口说明", record: "病历",
    recordNote: "只发送到本服务，不保存。", diagnoses: "诊断（每行一条）",
    diagnosesNote: "自动取自病历的“诊断”部分，也可自行填写。", send: "分析", example: "填入示例", clear: "清空",
    nothing: "结果显示在这里。", textTitle: "去标识后的病历", textTitlePlain: "病历", copy: "复制", copied: "已复制", layers: "标注来自",
    review: "规则不能找出全部标识，外发前须人工复核。", labelsTitle: "分类模型", codesTitle: "诊断编码",
    characters: (n) => `${n} 字`, working: "正在分析……", done: (s) => `完成，用时 ${s} 秒。`, noText: "请先填写病历或诊断。",
    identifiers: (n) => `已替换标识 ${n} 处`, entities: (n) => `实体列表（${n}）`, entity: "实体", type: "类型", untyped: "无类型", id: "编号", place: "位置",
    knowledge: "知识图谱", none: "无", noDiagnoses: "病历中没有“诊断”部分；请在左侧填写诊断。", confidence: "置信度", foundBy: "依据名称",
    matched: "匹配部分", unmatched: "未匹配部分", part: "对应文字", modifiers: "修饰语", missed: "未编码部分", reasons: "依据与候选",
    candidates: "候选", code: "编码", term: "标准词", score: "检索得分", source: "来源", standard: "标准词本身", whole: "全部", offline: "无法连接服务，请确认它仍在运行。",
    coded: "已编码", unsure: "待审核", negated: "否认", uncertain: "存疑", family: "家族史", history: "既往史",
    tooLong: (n, most) => `病历有 ${n} 字，最多 ${most} 字，请分开提交。`, tooMany: (most, longest) => `诊断最多 ${most} 条，每条最多 ${longest} 字。`,
    sources: {list: "术语表", graph: "知识图谱", text: "文本", everyday: "常用名", user: "自定义", english: "英文名"},
    procedure: "手术操作", not_diagnosis: "非诊断", not_found: "未找到", empty: "空",
    service: (v, n) => `Yiwen ${v} · ${n}`,
    errors: {busy: "服务繁忙，请稍后再试。", too_long: "内容过长，请分开提交。", too_slow: "处理超时，请提交较短的内容。", unusable: "内容无法处理。", key: "需要密钥。", failed: "服务出错，详见其日志。"},
  },
  en: {
    other: "中文", skip: "Skip to the results", about: "Records de-identified, entities marked, diagnoses coded", docs: "Endpoints",
    record: "Record", recordNote: "Sent to this service only, and not kept.", diagnoses: "Diagnoses, one per line",
    diagnosesNote: "Taken from the section 诊断 of the record; edit as you like.", send: "Analyse", example: "Fill in an example",
    clear: "Clear", nothing: "Results appear here.", textTitle: "De-identified record", textTitlePlain: "Record", copy: "Copy", copied: "Copied", layers: "Marked by",
    review: "No rule finds every identifier: a person has to review what leaves your house.", labelsTitle: "Classifiers",
    codesTitle: "Codes of diagnoses", characters: (n) => (n === 1 ? "1 character" : `${n} characters`), working: "Working …",
    done: (s) => `Done in ${s} s.`, noText: "Type a record or a diagnosis first.", identifiers: (n) => `identifiers replaced: ${n}`,
    entities: (n) => `List of entities (${n})`, entity: "Entity", type: "Type", untyped: "no type", id: "Id", place: "Place", knowledge: "knowledge graph", none: "none",
    noDiagnoses: "The record has no section 诊断. Type diagnoses on the left.", confidence: "confidence", foundBy: "Found by the name",
    matched: "Matched", unmatched: "Unmatched", part: "Answers the part", modifiers: "Modifiers", missed: "Parts without a code", reasons: "Reasons and candidates",
    candidates: "Candidates", code: "Code", term: "Term", score: "Score", source: "source", standard: "the standard term itself", whole: "all", offline: "The service cannot be reached. Is it still running?",
    coded: "coded", unsure: "to review", negated: "denied", uncertain: "doubted", family: "family history", history: "history",
    tooLong: (n, most) => `The record has ${n} characters and may have ${most}; send it in pieces.`,
    tooMany: (most, longest) => `There may be ${most} diagnoses of ${longest} characters each.`,
    sources: {list: "list", graph: "knowledge graph", text: "text", everyday: "everyday name", user: "your own", english: "English"},
    procedure: "procedure", not_diagnosis: "no diagnosis", not_found: "not found", empty: "empty",
    service: (v, n) => `Yiwen ${v} · ${n}`,
    errors: {busy: "The service is busy; try again shortly.", too_long: "Too long; send it in pieces.", too_slow: "It took too long; send less at a time.", unusable: "This cannot be processed.", key: "A key is needed.", failed: "The service failed; its log says where."},
  },
};

// A synthetic record; nobody's data.
const EXAMPLE = `姓名：王建国  性别：男  年龄：63岁  住院号：20260418
联系电话：13812345678  住址：江苏省南京市鼓楼区中山北路200号3栋402室

主诉：头痛、胸闷3天。
现病史：患者王建国3天前无明显诱因出现头痛，伴胸闷，无咳嗽。既往高血压10年，长期服用硝苯地平，2型糖尿病5年，服用二甲双胍。否认冠心病。
检查：血常规未见异常。

初步诊断：
1. 高血压病3级
2. 2型糖尿病伴视网膜病变？
3. 肺部感染，否认哮喘`;

// An address with user:KEY@ before the host opens the page, but scripts may ask none that has a key in it.
const home = new URL(".", location.href);
home.username = home.password = "";
const at = (id) => document.getElementById(id);
let language = "zh";
let offered = [];
let last = null;
let diagnosesAreMine = false;

function told(key, ...given) {
  const found = TEXTS[language][key];
  return typeof found === "function" ? found(...given) : found ?? key;
}

// An element with attributes and children; texts are never read as HTML.
function make(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function setLanguage(next) {
  language = next;
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
  for (const one of document.querySelectorAll("[data-text]")) one.textContent = told(one.dataset.text);
  at("language").textContent = told("other");
  at("language").lang = next === "zh" ? "en" : "zh-CN";
  count();
  showFoot();
  at("status").textContent = last ? told("done", last.seconds) : "";
  if (last) show(last);
}

function count() {
  at("count").textContent = told("characters", Array.from(at("record").value).length.toLocaleString(language));
}

// The items of the record's sections of diagnoses: what follows 初步诊断： until a blank line or another heading.
function diagnosesOf(record) {
  const found = [];
  let inside = false;
  for (const line of record.split(/\r?\n/)) {
    const heading = line.match(/^\s*(?:[一二三四五六七八九十]、)?[\u4e00-\u9fff]{0,6}诊断(?:[:：]|\s*$)(.*)$/);
    if (heading) {
      inside = true;
      found.push(...items(heading[1]));
    } else if (inside && (!line.trim() || /^\s*[\u4e00-\u9fff]{2,8}[:：]/.test(line))) {
      inside = false;
    } else if (inside) {
      found.push(...items(line));
    }
  }
  return found;
}

function items(line) {
  return line
    .split(/[；;]|(?<=[^\d])(?=\d{1,2}[、.．]\s*(?:[^\d\s]|\d型))/)
    .map((one) => one.replace(/^\s*(?:[（(]?\d{1,2}[)）]|\d{1,2}(?:[、．]|\.(?!\d)|\.(?=\d型))|[①-⑳])\s*/, "").trim().replace(/[。，,]$/, ""))
    .filter(Boolean);
}

async function ask(path, body) {
  let answer;
  try {
    answer = await fetch(new URL(path, home), {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  } catch {
    throw new Error(told("offline"));
  }
  if (answer.ok) return answer.json();
  const fault = await answer.json().catch(() => ({}));
  const problem = fault.problems?.[0]?.message;
  throw new Error([TEXTS[language].errors[fault.error] ?? `HTTP ${answer.status}`, fault.message, problem].filter(Boolean).join(" "));
}

const has = (kind) => offered.some((one) => one.kind === kind);

async function analyse() {
  const record = at("record").value;
  const diagnoses = at("diagnoses").value.split(/\r?\n/).map((one) => one.trim()).filter(Boolean);
  at("error").hidden = true;
  if (!record.trim() && !diagnoses.length) {
    fail(new Error(told("noText")));
    at("record").focus();
    return;
  }
  const began = performance.now();
  at("send").disabled = true;
  at("status").textContent = told("working");
  hideResults();
  try {
    if (!offered.length) await learn();
    const {limits} = offered;
    const length = Array.from(record).length;
    if (length > limits.characters) throw new Error(told("tooLong", ...[length, limits.characters].map((one) => one.toLocaleString(language))));
    if (diagnoses.length > limits.texts || diagnoses.some((one) => Array.from(one).length > limits.diagnosis_characters)) {
      throw new Error(told("tooMany", limits.texts, limits.diagnosis_characters));
    }
    const found = {record, text: record, identifiers: [], layers: [], labels: [], normalised: null, isTreated: false};
    const coding = has("normalise") && diagnoses.length ? ask("normalise", {texts: diagnoses, candidates: 5}) : null;
    coding?.catch(() => {});
    if (has("deidentify") && record.trim()) {
      const [one] = (await ask("deidentify", {texts: [record], explain: true})).answers;
      found.text = one.text;
      found.identifiers = one.identifiers;
      found.isTreated = true;
    }
    const asked = record.trim() ? offered.filter((one) => one.kind === "link" || (one.kind === "predict" && one.about.texts_per_record === 1)) : [];
    await Promise.all(asked.map(async (one) => {
      const {answers, labels} = await ask(one.name, {texts: [found.text]});
      if (answers[0].error) return; // nothing but blanks is left of the text
      if (one.kind === "link") found.layers.push({name: null, spans: answers[0].map((each) => ({...each, label: each.type ?? ""}))});
      else if (/tagging/.test(one.about.kind)) {
        found.layers.push({name: one.name.slice(8), spans: answers[0].answer.map((each) => ({...each, label: each.type}))});
      } else found.labels.push({name: one.name.slice(8), kind: one.about.kind, labels, ...answers[0]});
    }));
    found.layers.sort((a, b) => (a.name ?? "").localeCompare(b.name ?? ""));
    found.labels.sort((a, b) => a.name.localeCompare(b.name));
    if (has("normalise")) found.normalised = coding ? (await coding).answers : [];
    found.seconds = ((performance.now() - began) / 1000).toFixed(2);
    found.layer = 0;
    last = found;
    show(found);
    at("status").textContent = told("done", found.seconds);
    if (matchMedia("(max-width: 820px)").matches) at("results").scrollIntoView();
  } catch (error) {
    at("status").textContent = "";
    fail(error);
  } finally {
    at("send").disabled = false;
  }
}

function hideResults() {
  last = null;
  for (const id of ["text-section", "labels-section", "codes-section"]) at(id).hidden = true;
  at("nothing").hidden = false;
}

function fail(error) {
  at("error").textContent = error.message;
  at("error").hidden = false;
}

function show(found) {
  at("nothing").hidden = true;
  showText(found);
  showLabels(found);
  showCodes(found);
}

// Where the replaced identifiers are in the new text.
function replacedSpans(identifiers) {
  let shift = 0;
  return identifiers.map((one) => {
    const length = Array.from(one.becomes).length;
    const start = one.start + shift;
    shift += length - (one.end - one.start);
    return {start, end: start + length, label: one.kind, rule: one.rule, isIdentifier: true};
  });
}

function showText(found) {
  at("text-section").hidden = !found.record.trim();
  at("text-title").textContent = told(found.isTreated ? "textTitle" : "textTitlePlain");
  at("review").hidden = !found.isTreated;
  const characters = Array.from(found.text);
  const hidden = replacedSpans(found.identifiers);
  const layer = found.layers[found.layer];
  const entities = (layer?.spans ?? []).filter((one) => !hidden.some((each) => one.start < each.end && each.start < one.end));
  const types = [...new Set(entities.map((one) => one.label))].sort();
  const spans = [...hidden, ...entities].sort((a, b) => a.start - b.start || b.end - a.end);
  at("text").replaceChildren(...marked(characters, spans, 0, characters.length, types));
  showLayers(found);
  at("legend").replaceChildren(
    ...(found.isTreated ? [make("span", {}, make("mark", {class: "identifier"}, "〔…〕"), " ", told("identifiers", hidden.length))] : []),
    ...types.map((type) => make("span", {}, make("mark", {class: `c${types.indexOf(type) % 8}`}, type || told("untyped")), ` ${entities.filter((one) => one.label === type).length}`)),
  );
  at("entities-details").hidden = !layer;
  at("entities-details").querySelector("summary").textContent = told("entities", entities.length);
  at("entities").replaceChildren(
    make("tr", {}, ...["entity", "type", "id", "place"].map((key) => make("th", {scope: "col"}, told(key)))),
    ...entities.map((one) => make("tr", {}, make("td", {}, one.text ?? characters.slice(one.start, one.end).join("")), make("td", {}, one.label || told("untyped")),
      make("td", {}, one.entity_id ? `${one.name} (${one.entity_id})` : ""), make("td", {class: "number"}, `${one.start}–${one.end}`))),
  );
}

// The characters from start to end as nodes; a span may contain others. One that only crosses another is in the list alone.
function marked(characters, spans, start, end, types) {
  const nodes = [];
  let place = start;
  for (let number = 0; number < spans.length; number++) {
    const one = spans[number];
    if (one.start < place || one.end > end || one.start === one.end) continue;
    const inside = spans.slice(number + 1).filter((each) => each.start >= one.start && each.end <= one.end);
    nodes.push(characters.slice(place, one.start).join(""));
    const content = marked(characters, inside, one.start, one.end, types);
    if (one.isIdentifier) nodes.push(make("mark", {class: "identifier", title: `${one.label}: ${one.rule}`}, ...content));
    else {
      const kind = one.label || told("untyped");
      const title = one.entity_id ? `${kind}: ${one.name} (${one.entity_id})` : kind;
      const small = one.label ? [make("small", {}, one.label)] : []; // a graph without types would repeat one word
      nodes.push(make("mark", {class: `c${types.indexOf(one.label) % 8}`, title}, ...content, ...small));
    }
    place = one.end;
  }
  nodes.push(characters.slice(place, end).join(""));
  return nodes;
}

function showLayers(found) {
  const field = at("layers");
  field.hidden = found.layers.length < 2;
  field.querySelectorAll("label").forEach((one) => one.remove());
  found.layers.forEach((layer, number) => {
    const input = make("input", {type: "radio", name: "layer", value: number});
    input.checked = number === found.layer;
    input.addEventListener("change", () => {
      found.layer = number;
      showText(found);
      field.querySelectorAll("input")[number].focus();
    });
    field.append(make("label", {}, input, layer.name ?? told("knowledge")));
  });
}

function showLabels(found) {
  at("labels-section").hidden = !found.labels.length;
  at("labels").replaceChildren(...found.labels.flatMap((one) => {
    const names = [one.answer].flat();
    const shown = names.map((name) => {
      const score = one.scores?.[one.labels.indexOf(name)];
      return score === undefined ? String(name) : `${name} ${percent(score)}`;
    });
    return [make("dt", {}, one.name), make("dd", {}, shown.join(language === "zh" ? "，" : ", ") || told("none"))];
  }));
}

const percent = (share) => `${(100 * share).toFixed(share > 0.995 && share < 1 ? 1 : 0)} %`;

function badge(status) {
  const kind = status === "coded" ? "coded" : ["unsure", "uncertain"].includes(status) ? "review" : "other";
  return make("span", {class: `badge ${kind}`}, told(status));
}

function showCodes(found) {
  at("codes-section").hidden = found.normalised === null;
  if (found.normalised === null) return;
  if (!found.normalised.length) {
    at("codes").replaceChildren(make("p", {class: "quiet"}, told("noDiagnoses")));
    return;
  }
  at("codes").replaceChildren(...found.normalised.map((one) => {
    const card = make("article", {class: "card"}, make("h3", {}, one.diagnosis));
    for (const [status, answers] of [["coded", one.answers], ["unsure", one.unsure]]) {
      for (const answer of answers) card.append(answered(answer, status));
    }
    for (const part of one.refused) card.append(make("div", {class: "answer"}, make("p", {}, make("span", {}, part.text), badge(part.status))));
    if (one.missed.length || !card.querySelector(".answer")) {
      card.append(make("div", {class: "answer"}, make("p", {}, make("span", {}, one.missed.join("，") || one.diagnosis), badge("not_found"))));
    }
    if (!one.answers.length && !one.unsure.length && one.considered.length) {
      card.append(make("details", {}, make("summary", {}, told("candidates")), candidateTable(one.considered)));
    }
    if (one.modifiers.length) {
      card.append(make("p", {class: "quiet note"}, `${told("modifiers")}: ${one.modifiers.map((each) => each.text).join("，")}`));
    }
    return card;
  }));
}

function answered(answer, status) {
  const bar = make("i");
  bar.style.width = percent(answer.confidence).replace(" ", "");
  const line = make("p", {}, make("span", {class: "code"}, answer.pair ? `${answer.pair.dagger}† ${answer.pair.asterisk}*` : answer.code || "—"), make("span", {}, answer.term), badge(status),
    make("span", {class: "quiet number"}, make("span", {class: "bar", "aria-hidden": "true"}, bar), `${told("confidence")} ${percent(answer.confidence)}`));
  const reasons = make("dl", {class: "reasons"}, make("dt", {}, told("part")), make("dd", {}, answer.part));
  if (answer.match) {
    const {name, source, matched, unmatched} = answer.match;
    const parts = (given, kind) => (given.length ? given.map((one) => make("span", {class: `part ${kind}`}, one)) : [told("none")]);
    reasons.append(make("dt", {}, told("foundBy")), make("dd", {}, `${name} (${source ? `${told("source")}: ${TEXTS[language].sources[source] ?? source}` : told("standard")})`),
      make("dt", {}, told("matched")), make("dd", {}, ...parts(matched, "yes")),
      make("dt", {}, told("unmatched")), make("dd", {}, ...parts(unmatched, "no")));
  }
  const details = make("details", {}, make("summary", {}, told("reasons")), reasons);
  if (answer.candidates.length) details.append(candidateTable(answer.candidates));
  return make("div", {class: "answer"}, line, details);
}

function candidateTable(candidates) {
  const heads = ["code", "term", "score"].map((key) => make("th", {scope: "col", class: key === "score" ? "n" : null}, told(key)));
  const rows = candidates.map((one) => make("tr", {}, make("td", {class: "code"}, one.code), make("td", {}, one.term), make("td", {class: "n"}, one.score.toFixed(2))));
  return make("div", {class: "scroll"}, make("table", {}, make("caption", {}, told("candidates")), make("tr", {}, ...heads), ...rows));
}

async function learn() {
  let state;
  try {
    state = await (await fetch(new URL("health", home))).json();
  } catch {
    throw new Error(told("offline"));
  }
  offered = state.engines;
  offered.version = state.version;
  offered.limits = state.limits;
  at("diagnoses-field").hidden = !has("normalise");
  showFoot();
}

function showFoot() {
  const names = offered.map((one) => `${one.name} ${one.fingerprint.slice(0, 8)}`).join(" · ");
  at("foot").textContent = offered.length ? told("service", offered.version, names) : "";
}

function prefill() {
  count();
  if (!diagnosesAreMine) at("diagnoses").value = diagnosesOf(at("record").value).join("\n");
}

function remembered() {
  try {
    return localStorage.getItem("yiwen-language");
  } catch {
    return null;  // a browser may forbid it
  }
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  analyse();
});
at("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) analyse();
});
at("record").addEventListener("input", prefill);
at("diagnoses").addEventListener("input", () => {
  diagnosesAreMine = at("diagnoses").value.trim() !== "";
});
at("example").addEventListener("click", () => {
  at("record").value = EXAMPLE;
  diagnosesAreMine = false;
  prefill();
});
at("clear").addEventListener("click", () => {
  at("record").value = at("diagnoses").value = "";
  diagnosesAreMine = false;
  count();
  hideResults();
  at("error").hidden = true;
  at("status").textContent = "";
  at("record").focus();
});
at("copy").addEventListener("click", async () => {
  if (!last) return;
  await navigator.clipboard.writeText(last.text).catch(() => {});
  at("copy").textContent = told("copied");
  setTimeout(() => { at("copy").textContent = told("copy"); }, 2000);
});
at("language").addEventListener("click", () => {
  setLanguage(language === "zh" ? "en" : "zh");
  try {
    localStorage.setItem("yiwen-language", language);
  } catch { /* it is only remembered */ }
});
setLanguage(remembered() ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
learn().catch(fail);
