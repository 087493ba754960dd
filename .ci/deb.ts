import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

import { z } from 'zod';

/**
 * Makes the Debian package, with its own Node: Node of Debian 12 and 13 is too old. The same commit gives the same bytes, as all times
 * are the commit's (reproducible-builds.org, SOURCE_DATE_EPOCH). Prints the path of the package.
 */

const USAGE =
  'Usage: node .ci/deb.ts [--arch amd64|arm64] [--to FOLDER] [--version VERSION] [--compression xz|gzip]';

const ROOT = join(import.meta.dirname, '..');
const SCRIPTS = join(import.meta.dirname, 'debian');
/** The folder of the program in the package. */
const HOME = 'usr/lib/workbook-mirror';
/** The folder of units in Debian packages. */
const UNITS = 'usr/lib/systemd/system';
const MAINTAINER = 'workbook-mirror maintainers <maintainers@users.noreply.example>';
/** npm's name of each architecture. */
const CPUS = { amd64: 'x64', arm64: 'arm64' } as const;

const packageFile = z.object({
  version: z.string(),
  description: z.string(),
  devDependencies: z.object({ node: z.string() }),
});

const { values } = parseArgs({
  options: {
    arch: { type: 'string', default: 'amd64' },
    to: { type: 'string', default: '.' },
    version: { type: 'string' },
    compression: { type: 'string', default: 'xz' },
  },
});
const arch = z.enum(['amd64', 'arm64'], { error: USAGE }).parse(values.arch);
const compression = z.enum(['xz', 'gzip'], { error: USAGE }).parse(values.compression);
const facts = packageFile.parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
const version = values.version ?? facts.version;
/** A version with a tilde sorts earlier, so that a release follows its candidates (deb-version(7)). */
const debianVersion = version.replaceAll('-', '~');
const epoch =
  process.env['SOURCE_DATE_EPOCH'] ?? run('git', ['-C', ROOT, 'log', '-1', '--format=%ct']).trim();

// All files get the modes for the package.
process.umask(0o022);
const folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-deb-'));
try {
  const tree = join(folder, 'tree');
  putProgram(tree);
  putNode(tree);
  putForPeople(tree);
  putUnits(tree);
  putControl(tree);
  const made = resolve(values.to, `workbook-mirror_${version}_${arch}.deb`);
  run(
    'dpkg-deb',
    ['--root-owner-group', `-Z${compression}`, compression === 'xz' ? '-z6' : '-z1', '--build', tree, made],
    {
      SOURCE_DATE_EPOCH: epoch,
    },
  );
  process.stdout.write(`${made}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The program with its native library, in the folders that `npm install` would use. */
function putProgram(tree: string): void {
  const home = join(tree, HOME);
  mkdirSync(home, { recursive: true });
  for (const name of ['package.json', 'package-lock.json', '.npmrc', 'README.md'])
    put(tree, `${HOME}/${name}`, readFileSync(join(ROOT, name)));
  // The lock file has the digest of each package.
  run('npm', [
    'ci',
    '--silent',
    '--prefix',
    home,
    '--omit=dev',
    '--ignore-scripts',
    '--os=linux',
    '--libc=glibc',
    `--cpu=${CPUS[arch]}`,
  ]);
  for (const name of ['package-lock.json', '.npmrc', 'node_modules/.package-lock.json', 'node_modules/.bin'])
    rmSync(join(home, name), { recursive: true, force: true });
  // The native library comes compiled.
  const koffi = join(home, 'node_modules/koffi');
  const sources = globSync(
    ['{lib,vendor,doc}', '{cnoke,src/koffi/src/trampolines}.cjs', 'src/**/*.{cc,hh,inc,S,asm,def,txt}'],
    {
      cwd: koffi,
    },
  );
  for (const path of sources) rmSync(join(koffi, path), { recursive: true, force: true });
  rmSync(join(home, `node_modules/@koromix/koffi-linux-${CPUS[arch]}/musl_${CPUS[arch]}`), {
    recursive: true,
    force: true,
  });
  run(process.execPath, [join(ROOT, '.ci/build.ts'), join(home, 'dist')]);
  const main = join(home, 'dist/main.js');
  // Its first line names another Node. An empty one keeps the numbers of all others.
  writeFileSync(main, readFileSync(main, 'utf8').replace(/^#!.*/, ''));
  chmodSync(main, 0o644);
  put(tree, 'usr/bin/workbook-mirror', `#!/bin/sh\nexec /${HOME}/bin/node /${HOME}/dist/main.js "$@"\n`);
  chmodSync(join(tree, 'usr/bin/workbook-mirror'), 0o755);
}

function putNode(tree: string): void {
  const name = `node-linux-${CPUS[arch]}`;
  run('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${facts.devDependencies.node}`]);
  const archive = join(folder, `${name}-${facts.devDependencies.node}.tgz`);
  const home = join(tree, HOME);
  run('tar', [
    '--extract',
    `--file=${archive}`,
    `--directory=${home}`,
    '--strip-components=1',
    'package/bin/node',
    'package/LICENSE',
  ]);
  chmodSync(join(home, 'bin/node'), 0o755);
}

/** The manual page, completions, example settings, terms and changes. */
function putForPeople(tree: string): void {
  const program = (...args: string[]): string =>
    run(process.execPath, [join(tree, HOME, 'dist/main.js'), ...args]);
  const documents = 'usr/share/doc/workbook-mirror';
  put(tree, 'usr/share/man/man1/workbook-mirror.1.gz', gzipSync(program('help', '--man'), { level: 9 }));
  put(tree, 'usr/share/bash-completion/completions/workbook-mirror', program('completion', 'bash'));
  put(tree, 'usr/share/zsh/vendor-completions/_workbook-mirror', program('completion', 'zsh'));
  put(tree, 'usr/share/fish/vendor_completions.d/workbook-mirror.fish', program('completion', 'fish'));
  put(
    tree,
    'etc/workbook-mirror/config.example.yaml',
    readFileSync(join(ROOT, 'config/config.example.yaml')),
  );
  for (const name of ['alerts.yaml', 'grafana-dashboard.json'])
    put(tree, `${documents}/examples/${name}`, readFileSync(join(ROOT, 'config', name)));
  const dynamic = 'workbook-mirror-dynamic-user.conf';
  put(tree, `${documents}/examples/${dynamic}`, readFileSync(join(ROOT, 'systemd', dynamic)));
  const home = join(tree, HOME);
  const terms = { 'node.txt': 'LICENSE', 'third-party.txt': 'dist/third-party.txt' };
  for (const [name, path] of Object.entries(terms)) {
    put(tree, `${documents}/${name}`, readFileSync(join(home, path)));
    rmSync(join(home, path));
  }
  const others = `\nThe terms of Node are in node.txt beside this file, those of all other packages in third-party.txt.\n`;
  put(tree, `${documents}/copyright`, readFileSync(join(ROOT, 'LICENSE'), 'utf8') + others);
  const time = new Date(Number(epoch) * 1000).toUTCString().replace('GMT', '+0000');
  const change = `workbook-mirror (${debianVersion}) stable; urgency=medium\n\n  * See \`workbook-mirror help\`.\n\n -- ${MAINTAINER}  ${time}\n`;
  put(tree, `${documents}/changelog.gz`, gzipSync(change, { level: 9 }));
}

/** The units of one mirror, and the templates for several. */
function putUnits(tree: string): void {
  const from = join(ROOT, 'systemd');
  for (const name of readdirSync(from).filter((each) => /\.(?:service|timer)$/.test(each))) {
    put(tree, `${UNITS}/${name}`, ofPackage(readFileSync(join(from, name), 'utf8')));
    if (name.includes('restore-test')) continue;
    const template = run('sed', [`--file=${join(from, 'instances.sed')}`, join(from, name)]);
    put(tree, `${UNITS}/${name.replace('.', '@.')}`, ofPackage(template));
  }
  put(
    tree,
    'usr/lib/sysusers.d/workbook-mirror.conf',
    readFileSync(join(from, 'workbook-mirror.sysusers.conf')),
  );
  put(tree, 'usr/lib/tmpfiles.d/workbook-mirror.conf', readFileSync(join(SCRIPTS, 'tmpfiles.conf')));
  put(tree, 'usr/share/lintian/overrides/workbook-mirror', readFileSync(join(SCRIPTS, 'lintian-overrides')));
}

/** A unit that starts the program of the package: npm puts it into another folder. */
function ofPackage(unit: string): string {
  return unit.replaceAll('/usr/local/bin/workbook-mirror', '/usr/bin/workbook-mirror');
}

/** The files for dpkg (deb-control(5), deb-conffiles(5)). */
function putControl(tree: string): void {
  const files = filesIn(tree);
  const sizeKiB = Math.ceil(files.reduce((sum, path) => sum + statSync(join(tree, path)).size, 0) / 1024);
  const sums = files
    .filter((path) => !path.startsWith('etc/'))
    .map((path) => `${md5Of(join(tree, path))}  ${path}\n`);
  put(tree, 'DEBIAN/md5sums', sums.join(''));
  put(tree, 'DEBIAN/conffiles', '/etc/workbook-mirror/config.example.yaml\n');
  for (const name of ['postinst', 'prerm', 'postrm', 'templates']) {
    put(tree, `DEBIAN/${name}`, readFileSync(join(SCRIPTS, name)));
    chmodSync(join(tree, 'DEBIAN', name), name === 'templates' ? 0o644 : 0o755);
  }
  const fields = {
    Package: 'workbook-mirror',
    Version: debianVersion,
    Architecture: arch,
    Maintainer: MAINTAINER,
    'Installed-Size': String(sizeKiB),
    Depends:
      'libc6 (>= 2.28), libgcc-s1, libstdc++6, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles, debconf (>= 0.5) | debconf-2.0',
    Recommends: 'ca-certificates',
    Suggests: 'git',
    Section: 'net',
    Priority: 'optional',
    Description: [
      'exact, always readable copy of a workbook version-control service',
      'The daemon polls the service, pulls what changed, and publishes it into a',
      'folder on local disk, in one step for each state.',
    ].join('\n '),
  };
  put(
    tree,
    'DEBIAN/control',
    Object.entries(fields)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join(''),
  );
}

function filesIn(tree: string): string[] {
  return readdirSync(tree, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(tree.length + 1))
    .sort();
}

function md5Of(path: string): string {
  return createHash('md5').update(readFileSync(path)).digest('hex');
}

function put(tree: string, path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  writeFileSync(join(tree, path), content, { mode: 0o644 });
}

function run(command: string, args: readonly string[], env: Record<string, string> = {}): string {
  return execFileSync(command, args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
