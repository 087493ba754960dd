import { describe, expect, it } from 'vitest';

import { type Explanation, why } from '../../../../src/cli/read/explanation.ts';
import { describeExplanation } from '../../../../src/cli/read/why.ts';
import { runHere } from '../../../support/in-process.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

async function mirrored() {
  const { service, mirror } = await startPair({}, { RETIRE_AFTER_PASSES: '1' });
  service.addRepository('A', { 'plan.xlsx': 'a', 'Q1/only.xlsx': 'o' });
  service.addRepository('B', { 'deep/plan.xlsx': 'b', 'deep/myplan.xlsx': 'no' });
  await mirror.pass();
  return { service, mirror };
}

function answered(mirror: MirrorHarness, asked: string): ReturnType<typeof why> {
  return why(mirror.diskSettings, asked, false);
}

describe('why of a file name', () => {
  it('explains the only file with that name, or with that end of a path', async () => {
    const { mirror } = await mirrored();
    for (const asked of ['only.xlsx', 'Q1/only.xlsx']) {
      const explanation = (await answered(mirror, asked)) as Explanation;
      expect(explanation).toMatchObject({ target: { target: 'A/main' }, path: 'Q1/only.xlsx' });
      expect(explanation.file?.path).toBe('Q1/only.xlsx');
      expect(String(describeExplanation(explanation))).toMatch(/\n {4}version .* by .*\n {4}Version \d+\n/);
    }
  });

  it('lists the places of a repeated name, up to twenty for a person', async () => {
    const { service, mirror } = await mirrored();
    const explanation = await answered(mirror, 'plan.xlsx');
    expect(explanation).toEqual({
      file: 'plan.xlsx',
      places: [
        { target: 'A/main', path: 'plan.xlsx' },
        { target: 'B/main', path: 'deep/plan.xlsx' },
      ],
    });
    expect(String(describeExplanation(explanation))).toBe(
      'plan.xlsx is in 2 places; name one of them:\n  A/main/plan.xlsx\n  B/main/deep/plan.xlsx',
    );
    const folders = Array.from({ length: 23 }, (_, index) => [`${index}/plan.xlsx`, `${index}`]);
    service.addRepository('C', Object.fromEntries(folders) as Record<string, string>);
    await mirror.pass();
    const many = await answered(mirror, 'plan.xlsx');
    expect(String(describeExplanation(many)).split('\n')).toHaveLength(22);
    expect(String(describeExplanation(many))).toMatch(/\n {2}and 5 more$/);
    expect('places' in many && many.places.length).toBe(25);
  });
});

describe('why of a target that cannot be trusted', () => {
  it('says that the last pass failed as a whole, and why, and only what is known of a daemon', async () => {
    const { service, mirror } = await mirrored();
    const known = (await why(mirror.diskSettings, 'A/main', true)) as Explanation;
    const unsure = String(describeExplanation({ ...known, isAttended: null }));
    expect(unsure).toMatch(/polled at \S+Z, if a daemon runs\n/);
    const before = String(describeExplanation(await answered(mirror, 'A/main')));
    expect(before).not.toContain('the last pass failed');
    service.apiKey = 'another-key';
    await mirror.failure();
    const after = String(describeExplanation(await answered(mirror, 'A/main')));
    expect(after).toContain('! the last pass failed: credentials.refused: ');
  });

  it('says of a file that its tree was changed since it was published', async () => {
    const { service, mirror } = await mirrored();
    const target = { repositoryId: service.repositories[0]?.id ?? '', branch: 'main' };
    const counts = { added: 0, missing: 0, modified: 1 };
    const note = { sinceMs: Date.now(), needsRepair: false, first: 'plan.xlsx', ...counts };
    await mirror.context.state.saveDrift(target, 'A/main', note);
    const text = String(describeExplanation(await answered(mirror, 'A/main/plan.xlsx')));
    expect(text).toContain("someone changed the tree since then: `workbook-mirror verify 'A/main'` shows");
  });
});

describe('why of an unmirrored target', () => {
  it('says when a target left the mirror, and how to restore it', async () => {
    const { service, mirror } = await mirrored();
    const a = service.named();
    service.removeRepository(a);
    await mirror.pass();
    for (const asked of ['A/main', 'A/main/plan.xlsx']) {
      const explanation = await answered(mirror, asked);
      expect(explanation).toMatchObject({ retired: { target: 'A/main' } });
      const text = String(describeExplanation(explanation));
      expect(text).toMatch(/^A\/main is no longer mirrored: it left the mirror at \d{4}-/);
      expect(text).toContain("workbook-mirror history list 'A/main'\n");
      expect(text).toContain("workbook-mirror history restore 'A/main'");
    }
  });

  it('finds a retired target by its readable name, and by its repository', async () => {
    const { service, mirror } = await mirrored();
    service.write(service.named(), 'feature/q3', 'plan.xlsx', 'q3');
    service.addRepository('Old', { 'plan.xlsx': 'o' });
    await mirror.pass();
    for (const name of ['A', 'Old']) service.removeRepository(service.named(name));
    await mirror.pass();
    const retired = { retired: { target: 'A/feature%2Fq3' } };
    expect(await answered(mirror, 'A/feature/q3')).toMatchObject(retired);
    expect(await answered(mirror, 'A/feature/q3/plan.xlsx')).toMatchObject(retired);
    expect(await answered(mirror, 'Old')).toMatchObject({ retired: { target: 'Old/main' } });
    service.addRepository('host/org/old.git', { 'plan.xlsx': 'o' });
    await mirror.pass();
    service.removeRepository(service.named('host/org/old.git'));
    await mirror.pass();
    // A folder of repositories may hold others that are still mirrored.
    await expect(answered(mirror, 'host/org')).rejects.toMatchObject({ code: 'target.unknown' });
  });

  it('never says that nothing is mirrored if something is', async () => {
    const { mirror } = await mirrored();
    const error = await answered(mirror, 'nowhere-at-all.xlsx').catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'target.unknown',
      hint: '`workbook-mirror status --all` lists all targets, `workbook-mirror history list` what left the mirror.',
    });
    const { mirror: empty } = await startPair();
    const none = await answered(empty, 'plan.xlsx').catch((reason: unknown) => reason);
    expect(none).toMatchObject({ code: 'target.unknown' });
    expect((none as { hint: string }).hint).toContain('Nothing is mirrored there yet');
  });
});

it('why tells the time of the next pass only if a schedule is given', async () => {
  const { mirror } = await mirrored();
  const nextOf = async (settings: Readonly<Record<string, string>>): Promise<unknown> => {
    const { stdout } = await runHere(['why', 'A/main', '--json'], {
      DIRECTORY: mirror.directory,
      ...settings,
    });
    return (JSON.parse(stdout) as Explanation).nextPassAtMs;
  };
  expect(await nextOf({})).toBeNull();
  expect(await nextOf({ SCHEDULE: '0 0 * * *' })).toBeGreaterThan(0);
});
