/**
 * Writes down which commit every action of the workflows is, and which digest every image that the Dockerfile and the workflows build
 * with has, as tags can be moved. The images in `config` are examples for others to adapt, and stay as they are.
 *
 *     node .github/pin.ts           pins what only has a tag
 *     node .github/pin.ts --update  looks up the tags of what is pinned, too
 *     node .github/pin.ts --check   changes nothing; ends with 1 where something only has a tag
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import {
  commitOf,
  manifestAddress,
  references,
  tokenAddress,
  tokenIn,
  withPins,
  type Reference,
} from './pinning.ts';

const ROOT = join(import.meta.dirname, '..');
const WORKFLOWS = '.github/workflows';
const TIMEOUT_MS = 30_000;

/** One digest for all platforms where an image has several, as the index comes first. */
const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

/** The commit that a tag of a repository on GitHub stands for. */
async function lookUpCommit(name: string, tag: string): Promise<string> {
  const repository = name.split('/').slice(0, 2).join('/');
  const tags = [`refs/tags/${tag}`, `refs/tags/${tag}^{}`];
  const { stdout } = await promisify(execFile)(
    'git',
    ['ls-remote', '--', `https://github.com/${repository}`, ...tags],
    { timeout: TIMEOUT_MS, env: { ...process.env, GIT_TERMINAL_PROMPT: '0' } },
  );
  const commit = commitOf(stdout, tag);
  if (commit === undefined) throw new Error(`${repository} has no tag ${tag}`);
  return commit;
}

/** The digest of what a registry gives for a tag, computed here. */
async function lookUpDigest(name: string, tag: string): Promise<string> {
  const address = manifestAddress(name, tag);
  const ask = (headers: Record<string, string> = {}): Promise<Response> =>
    fetch(address, { headers: { accept: MANIFESTS, ...headers }, signal: AbortSignal.timeout(TIMEOUT_MS) });
  let response = await ask();
  const tokens = tokenAddress(response.headers.get('www-authenticate') ?? '');
  if (response.status === 401 && tokens !== undefined) {
    const given = await fetch(tokens, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    response = await ask({ authorization: `Bearer ${tokenIn(await given.json())}` });
  }
  if (!response.ok) throw new Error(`${address.href} answers ${response.status}`);
  const manifest = new Uint8Array(await response.arrayBuffer());
  return `sha256:${createHash('sha256').update(manifest).digest('hex')}`;
}

const { values } = parseArgs({ options: { check: { type: 'boolean' }, update: { type: 'boolean' } } });

const moves = ({ tag, pin }: Reference): boolean =>
  pin === undefined || (values.update === true && tag !== undefined);
const keyOf = ({ kind, name, tag }: Reference): string => `${kind} ${name} ${tag}`;

/** What was looked up, so that lines that refer to the same thing are pinned to the same. */
const pins = new Map<string, string>();

const workflows = (await readdir(join(ROOT, WORKFLOWS))).filter((name) => /\.ya?ml$/.test(name)).sort();

for (const file of ['Dockerfile', ...workflows.map((name) => `${WORKFLOWS}/${name}`)]) {
  const text = await readFile(join(ROOT, file), 'utf8');
  const moving = references(text).filter(moves);
  if (values.check === true) {
    for (const { name, tag } of moving) say(`${file}: ${name} is not pinned, it has the tag ${tag} only`);
    if (moving.length > 0) process.exitCode = 1;
    continue;
  }
  for (const reference of moving) {
    const { kind, name, tag = '' } = reference;
    const pin =
      pins.get(keyOf(reference)) ??
      (await (kind === 'action' ? lookUpCommit(name, tag) : lookUpDigest(name, tag)));
    pins.set(keyOf(reference), pin);
    if (pin !== reference.pin) say(`${file}: ${name} ${tag} is ${pin}`);
  }
  const pinned = withPins(text, (reference) => (moves(reference) ? pins.get(keyOf(reference)) : undefined));
  if (pinned !== text) await writeFile(join(ROOT, file), pinned);
}
