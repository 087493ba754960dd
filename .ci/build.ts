import { chmodSync, cpSync, globSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

import { type OutputChunk, rolldown } from 'rolldown';
import { z } from 'zod';

/** Builds the installed program: `node .ci/build.ts [FOLDER]`, by default `dist`. */

const ROOT = join(import.meta.dirname, '..');

/** The native library is installed next to the program. All other packages become part of it. */
const INSTALLED = [/^koffi$/];

/** Files that the program reads while it runs, by their path below `src`. */
const FILES = ['{daemon,lib,server/uploads}/page/*.{html,css,js,svg}', 'manual/*.md'];

/**
 * The parts of undici that the program uses, instead of its index. The index also loads fetch, WebSocket, mocks and caches, which
 * would take 8 MB of memory.
 */
const UNDICI = `
  const Dispatcher = require('./lib/dispatcher/dispatcher');
  Object.assign(Dispatcher.prototype, require('./lib/api'));
  exports.Agent = require('./lib/dispatcher/agent');
  exports.ProxyAgent = require('./lib/dispatcher/proxy-agent');
  exports.buildConnector = require('./lib/core/connect');
`;

const UNDICI_INDEX = /\/undici\/index\.js$/;

const packageFile = z.object({ name: z.string(), version: z.string(), license: z.string() });

interface Package extends z.infer<typeof packageFile> {
  /** The texts of its terms. */
  readonly notices: readonly string[];
}

const folder = process.argv[2] ?? join(ROOT, 'dist');
rmSync(folder, { recursive: true, force: true });
const packages = packagesOf(await bundle());
for (const path of globSync(FILES, { cwd: join(ROOT, 'src') }))
  cpSync(join(ROOT, 'src', path), join(folder, path));
writeFileSync(join(folder, 'third-party.txt'), packages.map(noticeOf).join('\n'));
writeFileSync(join(folder, 'third-party.cdx.json'), billOf([...packages, ...installedPackages()]));
chmodSync(join(folder, 'main.js'), 0o755);

/**
 * Bundles the sources with the packages that they use, as reading a few files takes less time and memory than reading hundreds. Modules
 * imported on demand stay separate files. All are in one folder, as `src/lib/process/program-folder.ts` says.
 */
async function bundle(): Promise<readonly OutputChunk[]> {
  const build = await rolldown({
    cwd: ROOT,
    input: { main: 'src/main.ts', thread: 'src/mirror/file-work/thread.ts' },
    external: INSTALLED,
    platform: 'node',
    plugins: [{ name: 'undici', load: { filter: { id: UNDICI_INDEX }, handler: () => UNDICI } }],
    transform: { target: 'es2024' },
  });
  const { output } = await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    // One character beyond Latin-1 doubles the memory of a source in V8.
    charset: 'ascii',
    comments: false,
    // By these maps, beside the files, a reported stack leads to the lines of the sources.
    sourcemap: 'hidden',
    sourcemapExcludeSources: true,
    // As seen from `dist`, wherever the program is built: the same sources give the same bytes.
    sourcemapPathTransform: (source, map) => relative(join(ROOT, 'dist'), resolve(dirname(map), source)),
  });
  const chunks = output.filter((each) => each.type === 'chunk');
  if (!chunks.some(({ moduleIds }) => moduleIds.some((id) => UNDICI_INDEX.test(id))))
    throw new Error('undici has its index in another file: see UNDICI');
  return chunks;
}

/** The packages that have become part of the program. */
function packagesOf(chunks: readonly OutputChunk[]): Package[] {
  const paths = chunks.flatMap(({ moduleIds }) => moduleIds);
  const folders = paths.flatMap((path) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []);
  return [...new Set(folders)].sort().map(packageIn);
}

/** The packages that are installed beside the program. */
function installedPackages(): Package[] {
  const root: unknown = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const { dependencies } = z.object({ dependencies: z.record(z.string(), z.string()) }).parse(root);
  return Object.keys(dependencies).map((name) => packageIn(join(ROOT, 'node_modules', name)));
}

function packageIn(path: string): Package {
  const files = readdirSync(path).filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file));
  return { ...factsIn(path), notices: files.map((file) => readFileSync(join(path, file), 'utf8')) };
}

function factsIn(path: string): z.infer<typeof packageFile> {
  return packageFile.parse(JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')));
}

/** The terms of a package, which must accompany every copy. */
function noticeOf({ name, version, license, notices }: Package): string {
  return [`==== ${name} ${version} (${license})`, ...notices.map((text) => text.trim()), ''].join('\n\n');
}

/** The list of all packages that run with the program, which scanners for known weaknesses read (CycloneDX 1.6). */
function billOf(all: readonly Package[]): string {
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', ...componentOf(factsIn(ROOT)) } },
    components: all.map((each) => ({
      type: 'library',
      ...componentOf(each),
      licenses: [{ license: { id: each.license } }],
    })),
  };
  return `${JSON.stringify(bill, null, 2)}\n`;
}

/** A package URL writes the sign before a scope as `%40` (purl-spec, npm). */
function componentOf({ name, version }: Pick<Package, 'name' | 'version'>): Record<string, string> {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return { 'bom-ref': purl, name, version, purl };
}
