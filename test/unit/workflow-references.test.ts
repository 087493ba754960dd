import { spawnSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const FOLDER = join(import.meta.dirname, '../../.github/workflows');

interface Step {
  readonly id?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly outputs?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
}

type Jobs = Readonly<Record<string, Job>>;

/** What an expression may ask for beside jobs and steps: https://docs.github.com/en/actions/reference/workflows-and-actions/contexts */
const CONTEXTS =
  /^(?:github\.(?:workflow|ref|sha|token|event_name|repository|server_url)|runner\.temp|secrets\.NPM_TOKEN)$/;

const needsOf = ({ needs = [] }: Job): readonly string[] => (typeof needs === 'string' ? [needs] : needs);

/** What a job can rely on: the jobs that it needs, and those that they need. */
function allNeedsOf(jobs: Jobs, job: Job): readonly string[] {
  const direct = needsOf(job);
  return direct.concat(direct.flatMap((name) => allNeedsOf(jobs, jobs[name] ?? {})));
}

/** What the expressions of a value ask for, such as `needs.build.outputs.digest`. */
function askedIn(value: object = {}): string[] {
  const expressions = [...JSON.stringify(value).matchAll(/\$\{\{(.*?)\}\}/g)];
  return expressions.flatMap(
    ([, text = '']) => text.replaceAll(/'[^']*'/g, '').match(/[a-z_]+(?:\.[\w-]+)+/gi) ?? [],
  );
}

function isAnswered(asked: string, jobs: Jobs, job: Job, before: readonly Step[]): boolean {
  const [kind, name = '', , output = ''] = asked.split('.');
  if (kind === 'needs') return needsOf(job).includes(name) && jobs[name]?.outputs?.[output] !== undefined;
  if (kind !== 'steps') return CONTEXTS.test(asked);
  const { run } = before.find(({ id }) => id === name) ?? {};
  return run?.includes(`echo "${output}=`) === true;
}

function artifactOf(step: Step, action: string): string[] {
  return step.uses?.startsWith(`actions/${action}@`) === true ? [String(step.with?.['name'])] : [];
}

/** What a workflow refers to and does not have. */
function dangling(text: string): string[] {
  const { jobs } = parse(text) as { jobs: Jobs };
  return Object.entries(jobs).flatMap(([name, job]) => {
    const { steps = [] } = job;
    const needed = allNeedsOf(jobs, job).flatMap((each) => jobs[each]?.steps ?? []);
    const uploads = new Set(needed.flatMap((step) => artifactOf(step, 'upload-artifact')));
    return [
      ...needsOf(job).filter((each) => jobs[each] === undefined),
      ...askedIn(job.outputs).filter((asked) => !isAnswered(asked, jobs, job, steps)),
      ...steps.flatMap((step, at) =>
        askedIn(step).filter((asked) => !isAnswered(asked, jobs, job, steps.slice(0, at))),
      ),
      ...steps.flatMap((step) => artifactOf(step, 'download-artifact')).filter((each) => !uploads.has(each)),
    ].map((missing) => `${name}: ${missing}`);
  });
}

describe.each(await readdir(FOLDER))('the workflow %s', async (name) => {
  const text = await readFile(join(FOLDER, name), 'utf8');

  it('refers to what there is', () => {
    expect(dangling(text)).toEqual([]);
  });

  it('has scripts that a shell can read', () => {
    const { jobs } = parse(text) as { jobs: Jobs };
    for (const { run } of Object.values(jobs).flatMap(({ steps = [] }) => steps)) {
      if (run === undefined) continue;
      const { stderr, status } = spawnSync('bash', ['-n'], { input: run, encoding: 'utf8' });
      expect(status, `${run}\n${stderr}`).toBe(0);
    }
  });
});

describe('what a workflow refers to', () => {
  const WHOLE = `
jobs:
  make:
    outputs: { digest: "\${{ steps.pack.outputs.digest }}" }
    steps:
      - id: pack
        run: echo "digest=1" >> "$GITHUB_OUTPUT"
      - uses: actions/upload-artifact@v7
        with: { name: file }
  check: { needs: make }
  publish:
    needs: [check, make]
    steps:
      - uses: actions/download-artifact@v8
        with: { name: file, path: "\${{ runner.temp }}" }
      - run: publish
        env: { SHA: "\${{ needs.make.outputs.digest }}" }
`;

  it('is there', () => {
    expect(dangling(WHOLE)).toEqual([]);
    expect(
      dangling(WHOLE.replace('[check, make]', 'check').replace('needs.make.outputs.digest', 'github.sha')),
    ).toEqual([]);
  });

  it.each([
    ['needs: make', 'needs: build', ['check: build']],
    ['digest=1', 'sha=1', ['make: steps.pack.outputs.digest']],
    ['- id: pack', '- id: pick', ['make: steps.pack.outputs.digest']],
    ['needs.make.outputs.digest', 'needs.make.outputs.sha', ['publish: needs.make.outputs.sha']],
    ['[check, make]', '[check]', ['publish: needs.make.outputs.digest']],
    ['{ name: file }', '{ name: folder }', ['publish: file']],
    ['runner.temp', 'runner.tmp', ['publish: runner.tmp']],
    ['needs.make.outputs.digest', 'steps.pack.outputs.digest', ['publish: steps.pack.outputs.digest']],
  ])('is missed where %s becomes %s', (from, to, missing) => {
    expect(dangling(WHOLE.replace(from, to))).toEqual(missing);
  });
});
