import { execFileSync } from 'node:child_process';
import { cp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { references } from '../../.github/pinning.ts';
import { temporaryFolder } from '../support/temporary.ts';

const FOLDER = join(import.meta.dirname, '../../.github/workflows');

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly uses?: string;
  readonly permissions?: Readonly<Record<string, string>> | string;
  readonly environment?: string;
  readonly 'timeout-minutes'?: number;
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: unknown;
  readonly concurrency?: unknown;
  readonly defaults?: { readonly run?: { readonly shell?: string } };
  readonly jobs: Readonly<Record<string, Job>>;
}

/** What a job that may publish uses: GitHub's own and what signs, and none that brings code of this repository or of its dependencies. */
const TRUSTED =
  /^(?:actions\/(?:setup-node|download-artifact|attest-build-provenance)|sigstore\/cosign-installer)@/;

/** Runs what a job downloaded, or what the repository or a dependency brings; npm has one use: to publish. */
const FOREIGN =
  /\b(?:npx|node|git|bash|sh|python3?|make|source|eval)\b|\.\/|\bdocker +(?!login\b)|\bnpm\b(?! publish --ignore-scripts )/;

/** A line of a script that is a comment. */
const COMMENT = /^ *#.*$/gm;

/** Events that give a workflow rights over code that anybody can send. */
const OPEN_EVENTS = ['pull_request_target', 'workflow_run', 'issue_comment'];

/** Whether something that is stolen from this job is worth anything: a right to write, or a secret. */
function hasRights(job: Job): boolean {
  const { permissions = {} } = job;
  if (typeof permissions === 'string') return true;
  const text = JSON.stringify(job);
  return Object.values(permissions).includes('write') || /\bsecrets\b/.test(text);
}

function ofRights(job: Job): string[] {
  const steps = job.steps ?? [];
  const broken = steps.flatMap(({ uses, run = '' }) => {
    if (uses !== undefined && !TRUSTED.test(uses)) return [`has rights, and uses ${uses}`];
    const command = FOREIGN.exec(run.replaceAll(COMMENT, ''));
    return command === null ? [] : [`has rights, and runs ${command[0].trim()}`];
  });
  if (job.environment === undefined) broken.push('has rights, and needs nobody to approve');
  if (!steps.some(({ run = '' }) => /\| sha256sum --check --strict$/m.test(run)))
    broken.push('has rights, and takes a file as it comes');
  return broken;
}

function ofStep({ uses = '', run = '', with: inputs = {} }: Step): string[] {
  const broken: string[] = [];
  if (run.includes('${{')) broken.push('has an expression in a script');
  if (uses.startsWith('actions/checkout@') && inputs['persist-credentials'] !== false)
    broken.push('leaves a token behind');
  if (uses.startsWith('actions/setup-node@') && inputs['package-manager-cache'] !== false)
    broken.push('may restore a cache');
  if (uses.startsWith('docker/setup-buildx-action@') && inputs['cache-binary'] !== false)
    broken.push('may restore a cache');
  if (uses.startsWith('docker/setup-qemu-action@') && inputs['cache-image'] !== false)
    broken.push('may restore a cache');
  if (uses.startsWith('actions/cache')) broken.push('restores a cache');
  return broken;
}

function ofJob(job: Job): string[] {
  const broken = (job.steps ?? []).flatMap(ofStep);
  if (typeof job.permissions !== 'object') broken.push('does not say which rights it has');
  if (job.uses === undefined && job['timeout-minutes'] === undefined) broken.push('may run for ever');
  return hasRights(job) ? [...broken, ...ofRights(job)] : broken;
}

/** The rules that a workflow breaks. */
function brokenRules(text: string): string[] {
  const workflow = parse(text) as Workflow;
  const broken: string[] = [];
  if (JSON.stringify(workflow.permissions) !== '{}') broken.push('jobs have rights by default');
  if (workflow.concurrency === undefined) broken.push('may run beside itself');
  // Without it, `bash -e` goes on where the first of two programs in a pipe fails.
  if (workflow.defaults?.run?.shell !== 'bash') broken.push('overlooks failures');
  for (const event of OPEN_EVENTS) if (event in workflow.on) broken.push(`runs on ${event}`);
  for (const [name, job] of Object.entries(workflow.jobs))
    broken.push(...ofJob(job).map((rule) => `${name} ${rule}`));
  return broken;
}

/** Actions and workflows of other repositories, as the parsed workflow names them. */
function foreignUses(text: string): string[] {
  const { jobs } = parse(text) as Workflow;
  const uses = Object.values(jobs).flatMap(({ uses, steps = [] }) =>
    [uses].concat(steps.map((step) => step.uses)),
  );
  return uses.filter((each) => each !== undefined).filter((each) => !each.startsWith('./'));
}

describe.each(await readdir(FOLDER))('the workflow %s', async (name) => {
  const text = await readFile(join(FOLDER, name), 'utf8');

  it('keeps to the rules', () => {
    expect(brokenRules(text)).toEqual([]);
  });

  it('uses no action that the script would not pin', () => {
    const known = references(text)
      .filter(({ kind }) => kind === 'action')
      .map(({ name, tag, pin }) => `${name}@${pin ?? tag}`);
    expect(known).toEqual(foreignUses(text));
  });

  it('builds with no image that the script would not pin', () => {
    const images = references(text).filter(({ kind }) => kind === 'image');
    const named = images.map(({ name }) => name);
    if (text.includes('docker/setup-buildx-action')) expect(named).toContain('moby/buildkit');
    if (text.includes('docker/setup-qemu-action')) expect(named).toContain('docker.io/tonistiigi/binfmt');
    expect(text).not.toMatch(/^ *sbom: true/m);
  });
});

describe('the release', () => {
  it('lets the package through that package.json describes', async () => {
    const text = await readFile(join(FOLDER, 'release.yml'), 'utf8');
    const { name, publishConfig } = JSON.parse(
      await readFile(join(FOLDER, '../../package.json'), 'utf8'),
    ) as { name: string; publishConfig: unknown };
    expect(text).toContain(`.name == "${name}"`);
    expect(parse(/\.publishConfig == (\{[^}]*\})/.exec(text)?.[1] ?? '')).toEqual(publishConfig);
  });
});

describe('the package of a release', () => {
  it('shows the pictures of its version, wherever its README is read', async () => {
    const text = await readFile(join(FOLDER, 'release.yml'), 'utf8');
    const steps = (parse(text) as Workflow).jobs['package']?.steps ?? [];
    const script = steps.map(({ run = '' }) => run).find((run) => run.includes('README.md')) ?? '';
    const folder = await temporaryFolder();
    await cp(join(FOLDER, '../../README.md'), join(folder, 'README.md'));
    const env = {
      ...process.env,
      GITHUB_SERVER_URL: 'https://github.example',
      GITHUB_REPOSITORY: 'owner/workbook-mirror',
      GITHUB_REF_NAME: 'v1.2.3',
    };
    execFileSync('bash', ['-e', '-c', script], { cwd: folder, env });
    const readme = await readFile(join(folder, 'README.md'), 'utf8');
    const addresses = readme.match(/[^\s"(]*\.github\/pictures\/[\w.-]+/g) ?? [];
    expect(addresses).toHaveLength(3);
    for (const address of addresses)
      expect(address).toMatch(
        /^https:\/\/github\.example\/owner\/workbook-mirror\/raw\/v1\.2\.3\/\.github\/pictures\//,
      );
  });
});

describe('the rules for workflows', () => {
  const SAFE = `
on: { push: { tags: [v1] } }
permissions: {}
concurrency: one
defaults: { run: { shell: bash } }
jobs:
  publish:
    timeout-minutes: 5
    environment: npm
    permissions: { id-token: write }
    steps:
      - uses: actions/download-artifact@v8
      - run: echo "$SHA256  file.tgz" | sha256sum --check --strict
      - run: npm publish --ignore-scripts file.tgz
        env: { TOKEN: "\${{ secrets.NPM_TOKEN }}" }
`;
  const instead = (from: string, to: string): string[] => brokenRules(SAFE.replace(from, to));

  it('let a job publish that does nothing else', () => {
    expect(brokenRules(SAFE)).toEqual([]);
  });

  it.each([
    'npm ci',
    'npm install --ignore-scripts',
    'npm pack',
    'npm run build',
    'npx x',
    'node x.js',
    'docker build .',
    './publish',
    'bash publish',
  ])('keep a job that may publish from %s', (command) => {
    const script = 'npm publish --ignore-scripts file.tgz';
    expect(instead(script, command)).toEqual([expect.stringContaining('publish has rights, and runs ')]);
    expect(
      instead('{ id-token: write }', '{ packages: write }').concat(instead(script, command)),
    ).toHaveLength(1);
    const withSecretOnly = SAFE.replace('{ id-token: write }', '{}').replace(script, command);
    expect(brokenRules(withSecretOnly)).toHaveLength(1);
  });

  it.each([
    ['actions/download-artifact@v8', 'actions/checkout@v5\n        with: { persist-credentials: false }'],
    ['actions/download-artifact@v8', 'somebody/publish@v1'],
    ['npm publish --ignore-scripts', 'npm publish'],
    [' | sha256sum --check --strict', ''],
    ['environment: npm', 'env: {}'],
    ['permissions: {}', 'permissions: { contents: read }'],
    ['permissions: { id-token: write }', 'env: {}'],
    ['file.tgz', '"${{ github.ref_name }}"'],
    ['concurrency: one', ''],
    ['shell: bash', 'shell: sh'],
    ['timeout-minutes: 5', ''],
    ['push: { tags: [v1] }', 'pull_request_target: {}'],
  ])('say so where %s becomes %s', (from, to) => {
    expect(instead(from, to)).toHaveLength(1);
  });

  it('want no token left behind, and no cache', () => {
    const step = (uses: string): string[] => instead('actions/download-artifact@v8', uses);
    expect(step('actions/checkout@v5')).toContain('publish leaves a token behind');
    expect(step('actions/setup-node@v5')).toEqual(['publish may restore a cache']);
    expect(step('docker/setup-qemu-action@v4')).toContain('publish may restore a cache');
    expect(step('actions/cache@v4')).toContain('publish restores a cache');
  });
});
