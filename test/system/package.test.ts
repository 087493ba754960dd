import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { PARTS } from './package.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The Nodes that the package must work with. */
const NODES = ['22.22', '24', '26'] as const;

const BOUND = { timeout: 300_000, maxBuffer: 64 * 1024 * 1024 };

const execute = promisify(execFile);

let folder: string;
let tarball: string;
let packed: readonly string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-package-'));
  const source = join(folder, 'source');
  for (const name of [...PARTS, '.npmrc'])
    await cp(join(ROOT, name), join(source, name), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(source, 'node_modules'));
  const { stdout } = await npm(['pack', '--json', '--pack-destination', folder], { cwd: source });
  const name = (await readdir(folder)).find((each) => each.endsWith('.tgz'));
  tarball = join(folder, name ?? '');
  packed = (await execute('tar', ['-tzf', tarball], BOUND)).stdout.trim().split('\n');
  expect(stdout).toContain('workbook-mirror');
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Runs npm with this Node, or with the first one in `path`. */
async function npm(args: readonly string[], options: { readonly cwd?: string; readonly path?: string } = {}) {
  const { path = process.env['PATH'] ?? '', cwd = folder } = options;
  const cli = await npmCli();
  const node = options.path === undefined ? process.execPath : join(path, 'node');
  // The variables of this run of npm must not reach the tested npm.
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const env = { ...Object.fromEntries(inherited), PATH: path, NO_UPDATE_NOTIFIER: '1' };
  return execute(node, [cli, ...args], { ...BOUND, cwd, env });
}

/** The npm of this machine, as a script for any Node. */
async function npmCli(): Promise<string> {
  const found = process.env['npm_execpath'];
  if (found?.endsWith('npm-cli.js')) return found;
  for (const part of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = await realpath(join(part, 'npm')).catch(() => undefined);
    if (path?.endsWith('npm-cli.js')) return path;
  }
  throw new Error('there is no npm');
}

/** A folder with all programs that an installation may use: this Node, git and a shell, but no compiler. */
async function programsWith(version: string): Promise<string | undefined> {
  const home = join(folder, `node-${version}`);
  await mkdir(home);
  const name = `node-${process.platform}-${process.arch}`;
  try {
    await npm(['install', '--prefix', home, '--no-save', '--ignore-scripts', `${name}@${version}`]);
  } catch {
    return undefined;
  }
  const programs = join(home, 'programs');
  await mkdir(programs);
  const binary = join(home, 'node_modules', name, 'bin/node');
  await chmod(binary, 0o755);
  await symlink(binary, join(programs, 'node'));
  for (const program of ['git', 'sh']) {
    const { stdout } = await execute('sh', ['-c', `command -v ${program}`]);
    await symlink(stdout.trim(), join(programs, program));
  }
  return programs;
}

/** The installed program. */
function installed(prefix: string, path: string, args: readonly string[]) {
  const env = {
    PATH: path,
    HOME: folder,
    NO_COLOR: '1',
    WORKBOOK_MIRROR_SERVICE_BASE_URL: 'https://workbooks.example.com/api',
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
    WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirror'),
  };
  return execute(join(prefix, 'bin/workbook-mirror'), args, { ...BOUND, env, cwd: folder });
}

describe('the package', () => {
  it('holds the program, its manual, settings and units, and nothing else', () => {
    const names = packed.map((path) => path.replace(/^package\//, ''));
    const folders = new Set(names.map((name) => name.split('/')[0] ?? name));
    const expected = ['LICENSE', 'README.md', 'config', 'dist', 'package.json', 'systemd'];
    expect([...folders].sort()).toEqual(expected);
    for (const name of ['main.js', 'workbook-mirror.1', 'third-party.txt', 'third-party.cdx.json'])
      expect(names).toContain(`dist/${name}`);
    expect(names.filter((name) => /\.(?:ts|test\.js)$/.test(name))).toEqual([]);
    // The release refuses a package with another version.
    expect(names.filter((name) => name.endsWith('package.json'))).toEqual(['package.json']);
  });

  it('lists the packages that run with it, and none that only make it', async () => {
    const { stdout } = await execute('tar', ['-xzOf', tarball, 'package/dist/third-party.cdx.json'], BOUND);
    const { components } = JSON.parse(stdout) as { components: { name: string; version: string }[] };
    const listed = new Set(components.map(({ name }) => name));
    const sources = (await readdir(join(ROOT, 'src'), { recursive: true })).filter((name) =>
      name.endsWith('.ts'),
    );
    for (const name of sources) {
      const text = await readFile(join(ROOT, 'src', name), 'utf8');
      // Files of types alone are not built.
      const imports = text.matchAll(/^import (?!type )[^;]*? from '(?!node:|\.)((?:@[^/']+\/)?[^/']+)/gm);
      for (const [, used = ''] of imports) expect(listed, name).toContain(used);
    }
    for (const maker of ['typescript', 'vitest', 'rolldown', 'oxlint', 'playwright-core', 'node'])
      expect(listed).not.toContain(maker);
    for (const { name, version } of components) {
      const { version: here } = JSON.parse(
        await readFile(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'),
      ) as { version: string };
      expect(version, name).toBe(here);
    }
  });

  it('runs nothing when it is installed', async () => {
    const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(Object.keys(scripts).filter((name) => /^(?:pre|post)?install$/.test(name))).toEqual([]);
  });

  for (const version of NODES) {
    it(`works with Node ${version}, installed globally where there is no compiler`, async ({ skip }) => {
      const path = await programsWith(version);
      if (path === undefined) return skip(`Node ${version} cannot be had from the npm registry here`);
      for (const scripts of [[], ['--ignore-scripts']]) {
        const prefix = join(folder, `prefix-${version}-${scripts.length}`);
        await npm(['install', '--global', '--prefix', prefix, ...scripts, tarball], { path });
        const run = (...args: string[]) => installed(prefix, path, args);
        expect((await run('--version')).stdout).toMatch(/^\d+\.\d+\.\d+/);
        expect((await run('help')).stdout).toContain('Topics of the manual');
        expect((await run('help', 'exit-codes')).stdout).toContain('another instance holds the directory');
        expect((await run('config', 'check')).stdout).toMatch(/^ok +settings +good /m);
        expect((await run('demo', '--once')).stdout).toContain('identical to Git, byte for byte');
        const page = await readFile(join(prefix, 'share/man/man1/workbook-mirror.1'), 'utf8');
        expect(page).toContain('.SH NAME');
      }
    });
  }
});
