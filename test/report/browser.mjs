// Opens pages of --report: browser.mjs BROWSER FOLDER. Every check fails on what a person at the browser could see.
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
  check(`${file}: the lines come as CSV`, /^configuration,run,seconds,bytes\n"[^"]+",1,[\d.]+,\d+\n/.test(csv), csv.slice(0, 200));

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
await browser.close();
console.log(`${passed + 2} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
