import { describe, expect, it } from 'vitest';

import type { ReferenceForm } from '../../../support/fake-service.ts';
import { startMirrored, startPair, treeOf } from '../../../support/mirror-harness.ts';

const FORMS: readonly ReferenceForm[] = ['id', 'full_name_encoded', 'full_name', 'name'];

describe('the reference to a repository', () => {
  it('remembers the form that worked, even after a restart', async () => {
    const { service, mirror } = await startPair({ references: new Set<ReferenceForm>(['name']) });
    const repository = service.addRepository('git.example.com/org/plan.git', { 'a.xlsx': 'a' });
    await mirror.pass();
    expect(service.takeDownloads()).toHaveLength(4);
    service.write(repository, 'main', 'a.xlsx', 'a2');
    await mirror.pass();
    expect(service.takeDownloads()).toStrictEqual(['GET /api/repos/plan/contents?branch=main']);
    await mirror.restart();
    service.write(repository, 'main', 'a.xlsx', 'a3');
    await mirror.pass();
    expect(service.takeDownloads()).toStrictEqual(['GET /api/repos/plan/contents?branch=main']);
    await mirror.expectExact();
  });

  it('finds another form when the one that worked stops working', async () => {
    const { service, mirror } = await startPair({ references: new Set<ReferenceForm>(['name']) });
    const repository = service.addRepository('git.example.com/org/plan.git', { 'a.xlsx': 'a' });
    await mirror.pass();
    for (const form of FORMS) {
      service.knobs.references = new Set([form]);
      service.write(repository, 'main', 'a.xlsx', `now by ${form}`);
      // The id names the repository alone: its first failure lets no other form answer.
      if (form === 'full_name_encoded') expect((await mirror.pass()).exitCode).toBe(1);
      await mirror.exactPass();
    }
  });

  it('by an id that worked before leads to no other repository, not even one that took its name since the list was read', async () => {
    const { service, mirror, repository } = await startMirrored('Plan', { 'a.xlsx': 'a' });
    service.write(repository, 'main', 'a.xlsx', 'a2');
    service.fault = (path) => {
      if (!path.includes('/contents')) return null;
      service.fault = null;
      service.removeRepository(repository);
      service.addRepository('Plan', { 'a.xlsx': 'of another repository' });
      return null;
    };
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(await mirror.tree('Plan/main')).toStrictEqual(treeOf({ 'a.xlsx': 'a' }));
    for (let pass = 0; pass < 2; pass += 1) await mirror.pass();
    await mirror.expectExact();
  });

  it('stays the id for all others if one repository was found by its name alone, even after a restart', async () => {
    const { service, mirror, repository } = await startMirrored('Plan', { 'a.xlsx': 'a' });
    const late = service.addRepository('Late', { 'a.xlsx': 'late' });
    service.failTimes(`${late.id}/contents`, 1, { kind: 'status', status: 404 });
    await mirror.exactPass();
    await mirror.restart();
    service.takeRequests();
    service.write(repository, 'main', 'a.xlsx', 'a2');
    await mirror.exactPass();
    expect(service.takeDownloads()[0]).toContain(repository.id);
  });

  it('is absent if the form that worked says so, even after a restart, and whatever the others answer', async () => {
    const references = new Set<ReferenceForm>(['full_name']);
    const { service, mirror } = await startPair({ references, unacceptedReference: 'unprocessable' });
    const repository = service.addRepository('Accounting', { 'a.xlsx': 'a' });
    service.fork(repository, 'main', 'dev');
    await mirror.exactPass();
    repository.branches.delete('dev');
    for (let pass = 0; pass < 4; pass += 1) {
      await mirror.restart();
      await mirror.pass();
    }
    expect(await mirror.targets()).toStrictEqual(['Accounting/main']);
  });

  it('never uses a short name that two repositories share, although the service takes it', async () => {
    const { service, mirror } = await startPair({ references: new Set<ReferenceForm>(['name']) });
    service.addRepository('git.example.com/one/plan.git', { 'a.xlsx': 'of one' });
    service.addRepository('git.example.com/two/Plan.git', { 'a.xlsx': 'of two' });
    service.addRepository('git.example.com/two/other.git', { 'a.xlsx': 'other' });
    const results = await mirror.results();
    expect(service.takeDownloads().filter((request) => /\/repos\/plan\//i.test(request))).toStrictEqual([]);
    expect(await mirror.targets()).toStrictEqual(['git.example.com/two/other.git/main']);
    expect(results['git.example.com/one/plan.git/main']).toMatchObject({ code: 'contents.not_found' });
    expect(mirror.eventsOf('target.failed')[0]?.message).toMatch(/short name "plan" is shared/i);
  });

  it('retires nothing because no address of contents works any longer', async () => {
    const { service, mirror } = await startPair({ v1: '404' }, { TARGETS: '**/main' });
    service.addRepository('Accounting', { 'a.xlsx': 'a' });
    service.addRepository('git.example.com/one/plan.git', { 'a.xlsx': 'b' });
    await mirror.pass();
    service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 404 } : null);
    for (let pass = 0; pass < 3; pass += 1) await mirror.pass();
    expect(await mirror.tree('Accounting/main')).toStrictEqual(treeOf({ 'a.xlsx': 'a' }));
    expect(mirror.eventsOf('target.retired')).toStrictEqual([]);
  });
});
