// SPDX-License-Identifier: MIT
'use strict';
// One line for each part of the work; nothing in it depends on time, order or addresses.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const child = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');
const zlib = require('zlib');

const hash = (data) => crypto.createHash('sha256').update(data).digest('hex');

function work(seed) {
  const table = new Map();
  for (let i = 0; i < 6000; i++) {
    const key = hash(`${seed}-${i}`);
    table.set(key.slice(0, (i % 20) + 2), { list: new Array(i % 9).fill(key), n: i / 7, text: key.repeat(i % 6) });
  }
  const text = JSON.stringify([...table].sort((a, b) => (a[0] < b[0] ? -1 : 1)));
  const again = JSON.parse(text).map(([key, value]) => key + value.n);
  const packed = zlib.deflateSync(text, { level: 6 });
  const numbers = Float64Array.from({ length: 50000 }, (_, i) => ((i * 7919 + seed) % 100003) / 8).sort();
  return hash(again.join()) + hash(packed) + hash(Buffer.from(numbers.buffer)) + zlib.inflateSync(packed).length;
}

if (!isMainThread) {
  const shared = new Int32Array(workerData.shared);
  for (let i = 0; i < 10000; i++) Atomics.add(shared, i % shared.length, workerData.seed);
  const buffer = new ArrayBuffer(1 << 20);
  new Uint8Array(buffer).fill(workerData.seed);
  parentPort.postMessage({ seed: workerData.seed, said: work(workerData.seed), buffer }, [buffer]);
} else if (process.argv[2] === 'child') {
  process.on('message', (message) => {
    process.send({ said: work(message.seed), bytes: Buffer.alloc(300000, message.seed).toString('base64').length });
    process.disconnect();
  });
} else {
  main();
}

const promised = (start) => new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value))));

async function workers() {
  const shared = new SharedArrayBuffer(400);
  const said = await Promise.all([1, 2, 3, 4, 5, 6].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { seed, shared } });
    worker.on('message', (m) => resolve(`${m.seed} ${m.said} ${new Uint8Array(m.buffer)[77]} ${m.buffer.byteLength}`));
    worker.on('error', reject);
  })));
  const stopped = new Worker('setInterval(() => new Array(1000).fill({}), 0)', { eval: true });
  await new Promise((resolve) => stopped.once('online', resolve));
  await stopped.terminate();
  console.log('workers', said.join('\n'), hash(Buffer.from(shared)));
}

async function children() {
  const forked = [7, 8].map((seed) => new Promise((resolve, reject) => {
    const one = child.fork(__filename, ['child']);
    one.on('message', (m) => resolve(`${m.said} ${m.bytes}`));
    one.on('error', reject);
    one.send({ seed });
  }));
  console.log('children', ...await Promise.all(forked));
  const big = 'line of text\n'.repeat(40000);
  console.log('sort', hash(child.execFileSync('sort', ['-u'], { input: big })), hash(child.execSync('seq 1 50000 | tac')));
  const ended = await new Promise((resolve) => child.exec('exit 3', (error) => resolve(error.code)));
  console.log('exit', ended, child.spawnSync('/nonexistent').error.code);
}

async function buffers() {
  const all = [];
  for (let i = 0; i < 400; i++) {
    const one = Buffer.alloc((i * 4099) % 300000, i & 255);
    if (one.length > 16) one.writeDoubleLE(i / 3, 8);
    if (i % 3) all.push(one);
  }
  console.log('buffers', hash(Buffer.concat(all.filter((one) => one.length > 16))));
  const text = Buffer.concat(all).toString('base64');
  console.log('base64', text.length, hash(Buffer.from(text, 'base64')));
  const file = path.join(process.env.TMPDIR, 'file');
  await fs.promises.writeFile(file, text);
  const streamed = crypto.createHash('md5');
  for await (const part of fs.createReadStream(file, { highWaterMark: 1 << 18 })) streamed.update(part);
  console.log('file', streamed.digest('hex'));
  console.log('gzip', hash(await promised((done) => zlib.gunzip(zlib.gzipSync(text), done))),
    hash(await promised((done) => zlib.brotliCompress(text.slice(0, 400000), done))));
}

async function ciphers() {
  const key = crypto.scryptSync('password', 'salt', 32, { N: 16384 });
  const cipher = crypto.createCipheriv('aes-256-gcm', key, Buffer.alloc(12, 3));
  const closed = Buffer.concat([cipher.update(Buffer.alloc(3000000, 9)), cipher.final(), cipher.getAuthTag()]);
  const derived = await Promise.all([1, 2, 3, 4].map((n) => promised((done) => crypto.pbkdf2('p', `s${n}`, 20000, 64, 'sha512', done))));
  console.log('ciphers', hash(closed), hash(Buffer.concat(derived)));
  const { publicKey, privateKey } = await promised((done) => crypto.generateKeyPair('ec', { namedCurve: 'P-256' },
    (error, publicKey, privateKey) => done(error, { publicKey, privateKey })));
  console.log('signature', crypto.verify('sha256', closed, publicKey, crypto.sign('sha256', closed, privateKey)));
}

async function server() {
  const one = http.createServer((request, response) => {
    response.end(zlib.gzipSync(`${request.url} `.repeat(Number(request.url.slice(1)) * 50)));
  });
  await new Promise((resolve) => one.listen(0, '127.0.0.1', resolve));
  const get = (n) => new Promise((resolve, reject) => {
    http.get({ port: one.address().port, host: '127.0.0.1', path: `/${n}` }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve(hash(zlib.gunzipSync(Buffer.concat(parts)))));
    }).on('error', reject);
  });
  const answers = await Promise.all(Array.from({ length: 150 }, (_, n) => get(n)));
  console.log('server', hash(answers.join()));
  await new Promise((resolve) => one.close(resolve));
}

function language() {
  class Node { constructor(depth) { this.left = depth ? new Node(depth - 1) : null; this.right = depth ? new Node(depth - 1) : null; } }
  const count = (node) => (node ? 1 + count(node.left) + count(node.right) : 0);
  let total = 0;
  for (let i = 0; i < 6; i++) { total += count(new Node(14)); if (global.gc) global.gc(); }
  const big = Array.from({ length: 300 }, (_, n) => BigInt(n + 1)).reduce((a, b) => a * b);
  const bytes = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 5, 3, 1, 0, 16, 7, 7, 1, 3,
    97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]);
  const wasm = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  const sorted = Array.from({ length: 80000 }, (_, i) => (i * 48271) % 65537).sort((a, b) => a - b);
  console.log('language', total, hash(String(big)), wasm.exports.add(40, 2), hash(sorted.join()),
    'äöü𝄞'.repeat(50000).normalize('NFD').length, hash('a-b_c'.repeat(50000).replace(/[-_](\w)/g, (_, c) => c.toUpperCase())),
    new Intl.NumberFormat('de').format(1234567.5), hash(structuredClone(sorted).join()));
}

async function main() {
  console.log('alone', work(0));
  language();
  await buffers();
  await ciphers();
  await workers();
  await children();
  await server();
}
