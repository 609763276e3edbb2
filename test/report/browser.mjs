// Opens pages of --report, `trace report --html` and `trace diff --html`: browser.mjs BROWSER FOLDER. Every check fails on what a person at the browser could see.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let passed = 0;
let failed = 0;

const check = (name, holds, detail = "") => {
  console.log(`${holds ? "ok    " : "FAILED"}  ${name}${holds ? "" : `: ${detail}`}`);
  if (holds) passed += 1; else failed += 1;
};

const open = async (file, more) => {
  const context = await browser.newContext({ viewport: { width: 1000, height: 900 }, acceptDownloads: true, ...more });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) complaints.push(`asked for ${request.url()}`); });
  await page.goto(pathToFileURL(`${folder}/${file}`).href);
  await page.waitForSelector("#chart canvas");
  return { page, context, complaints };
};

const violations = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run());
  return found.violations.map((one) => `${one.id} (${one.nodes.map((node) => node.target.join(" ")).join("; ")})`).join(", ");
};

// Of the chart's pixels, how many are neither of the ground nor transparent.
const inked = (page) => page.evaluate(() => {
  const canvas = document.querySelector("#chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i] > 0) count += 1;
  return count;
});

for (const [file, first] of [["run.html", "plain: physical memory"], ["compare.html", "plain"]]) {
  const { page, context, complaints } = await open(file);
  check(`${file}: no error, no warning, no network`, complaints.length === 0, complaints.join("; "));
  check(`${file}: the command's text is no script`, !(await page.evaluate(() => "hostile" in window)));
  check(`${file}: it is in the title as it is`, (await page.title()).includes("</script>"), await page.title());

  const box = await page.locator("#chart .u-over").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const read = await page.locator("#readout").textContent();
  check(`${file}: hovering reads the lines`, /^at \d+\.\d\d s: /.test(read) && read.includes(`${first} `) && /[kM]B/.test(read), read);

  const before = await inked(page);
  await page.getByLabel(first, { exact: true }).uncheck();
  await page.waitForTimeout(100);
  const after = await inked(page);
  check(`${file}: the legend switches a line off`, after < before, `${before} to ${after} pixels`);
  await page.getByLabel(first, { exact: true }).check();

  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#download")]);
  const csv = readFileSync(await download.path(), "utf8");
  check(`${file}: the lines come as CSV`, /^configuration,run,seconds,bytes\n[^"\n]+,1,[\d.]+,\d+\n/.test(csv), csv.slice(0, 200));

  const wrong = await violations(page);
  check(`${file}: accessible in the light`, wrong === "", wrong);
  writeFileSync(file.replace(".html", "-light.png"), await page.screenshot({ fullPage: true }));
  await page.emulateMedia({ media: "print" });
  check(`${file}: buttons are not printed`, !(await page.locator("#download").isVisible()));
  await context.close();
}

for (const file of ["run.html", "compare.html"]) {
  const { page, context, complaints } = await open(file, { colorScheme: "dark", viewport: { width: 360, height: 700 } });
  const wrong = await violations(page);
  check(`${file}: accessible in the dark`, wrong === "" && complaints.length === 0, wrong + complaints.join("; "));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  check(`${file}: fits a narrow screen`, width <= 360, `${width} pixels`);
  writeFileSync(file.replace(".html", "-dark.png"), await page.screenshot({ fullPage: true }));
  await context.close();
}
// The flame graph of `trace report --html`: by mouse and by keyboard alone.
{
  const { page, context, complaints } = await open("trace.html");
  const width = (name) => page.evaluate((one) =>
    document.querySelector(`g.frame[name="${one}"] rect`)?.getBoundingClientRect().width ?? 0, name);
  const read = () => page.locator("#flame-read").textContent();
  await page.waitForTimeout(100);
  check("trace.html: no error, no warning, no network", complaints.length === 0, complaints.join("; "));
  check("trace.html: a name in a trace is no script", !(await page.evaluate(() => "hostile" in window)));
  check("trace.html: what pins is as wide as all", Math.abs(await width("cache") - await width("all")) < 2 && await width("reply") === 0,
    `${await width("cache")} of ${await width("all")}, reply ${await width("reply")}`);

  await page.hover('g.frame[name="cache"]');
  check("trace.html: hovering reads a call", /^cache: 397 kB, 100\.0 % of 397 kB$/.test(await read()), await read());
  await page.check('input[value="allocated"]');
  await page.waitForTimeout(500);
  check("trace.html: another kind has other widths", await width("reply") > 20 * await width("cache"),
    `reply ${await width("reply")}, cache ${await width("cache")}`);
  const wrong = await violations(page);
  check("trace.html: accessible in the light", wrong === "", wrong);
  writeFileSync("trace-light.png", await page.screenshot({ fullPage: true }));

  await page.fill("#flame-search", "CACHE");
  const found = await page.locator("#flame-found").textContent();
  check("trace.html: search says what it found", found === "1 call found, 12.8 kB, 3.1 %", found);
  check("trace.html: and marks it", (await page.locator("g.frame.found").getAttribute("name")) === "cache");
  await page.fill("#flame-search", "");

  await page.locator("#flame-reset").focus();
  await page.keyboard.press("Tab");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const name = () => page.evaluate(() => document.activeElement.getAttribute("name"));
  check("trace.html: arrows go from call to call", await name() === "cache" && (await read()).startsWith("cache: 12.8 kB"), `${await name()}: ${await read()}`);
  await page.keyboard.press("Enter");
  await page.waitForTimeout(100);
  check("trace.html: Enter enlarges it", await width("cache") > 500 && await name() === "cache", `${await width("cache")}`);
  await page.keyboard.press("Escape");
  await page.waitForTimeout(100);
  check("trace.html: Escape returns", await width("cache") < 100 && await name() === "all", `${await width("cache")}, ${await name()}`);

  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: 650, height: 900 });
  const right = await page.evaluate(() => document.querySelector("#flame svg").getBoundingClientRect().right);
  check("trace.html: fits on paper, without what paper cannot do", right <= 650 && !(await page.locator("#flame-search").isVisible()), `${right}`);
  await context.close();
}
{
  const { page, context, complaints } = await open("trace.html", { colorScheme: "dark", viewport: { width: 360, height: 700 } });
  await page.waitForTimeout(100);
  const wrong = await violations(page);
  check("trace.html: accessible in the dark", wrong === "" && complaints.length === 0, wrong + complaints.join("; "));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  check("trace.html: fits a narrow screen", width <= 360, `${width} pixels`);
  writeFileSync("trace-dark.png", await page.screenshot({ fullPage: true }));
  await context.close();
}
// Two recordings beside each other.
for (const [scheme, width] of [["light", 1000], ["dark", 360]]) {
  const { page, context, complaints } = await open("diff.html", { colorScheme: scheme, viewport: { width, height: 700 } });
  check(`diff.html: no error, no warning, no network (${scheme})`, complaints.length === 0, complaints.join("; "));
  check(`diff.html: a name in a trace is no script (${scheme})`, !(await page.evaluate(() => "hostile" in window)));
  const wrong = await violations(page);
  check(`diff.html: accessible (${scheme})`, wrong === "", wrong);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check(`diff.html: fits the screen (${scheme})`, wide <= width, `${wide} pixels`);
  const before = await inked(page);
  await page.getByLabel("A", { exact: true }).uncheck();
  await page.waitForTimeout(100);
  check(`diff.html: the legend switches a recording off (${scheme})`, await inked(page) < before);
  writeFileSync(`diff-${scheme}.png`, await page.screenshot({ fullPage: true }));
  await context.close();
}
await browser.close();
console.log(`${passed + 4} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
