import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect } from 'node:util';

import { describe, expect, it, vi } from 'vitest';

import { openMirror } from '../../../src/app/open-mirror.ts';
import type { MirrorEvent } from '../../../src/app/events.ts';
import type { FakeService } from '../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../support/mirror-harness.ts';
import { mirrorSettings } from '../../support/settings.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const OLD = 'old-key-8a31';
const NEW = 'new-key-77c0';

/** A mirror after a pass on a service that accepts the old key and the old token. */
async function mirrored(settings: HarnessSettings = {}) {
  const old = { SERVICE_API_KEY: OLD, SERVICE_API_TOKEN: OLD };
  const { service, mirror } = await startPair({}, { ...old, ...settings });
  service.apiKey = OLD;
  service.apiToken = OLD;
  service.addRepository('Accounting', { 'a.xlsx': 'a' });
  service.addRepository('Other', { 'o.xlsx': 'o' });
  await mirror.pass({ trigger: 'start' });
  service.takeRequests();
  return { service, mirror };
}

/** Changes something, so that a pass has work. */
function edit(service: FakeService): void {
  for (const repository of service.repositories)
    service.write(repository, 'main', 'new.xlsx', `${service.sequence}`);
}

/** The keys and tokens that were sent since the last call, in order. */
function takeKeys(service: FakeService): string[] {
  return service.requests
    .splice(0)
    .map(({ headers }) => String(headers['x-api-key'] ?? headers.authorization));
}

function credentialEvents(mirror: MirrorHarness): string[] {
  return mirror.events.flatMap((event) => {
    if (event.name === 'credentials.refused') return [`refused ${event.credential}`];
    return event.name === 'credentials.accepted' ? [`accepted ${event.credential} ${event.key}`] : [];
  });
}

/** Moves the clock. */
function later(durationMs: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + durationMs });
}

const MINUTE_MS = 60_000;
const SCHEDULED = { trigger: 'schedule' } as const;
const UNAUTHORIZED = { kind: 'status', status: 401 } as const;

/** The settings of a mirror that has two keys, or two tokens. */
const TWO_KEYS = { SERVICE_API_KEY: `${OLD}\n${NEW}` };

describe('a second key', () => {
  it.each([
    ['key', 'apiKey', 'SERVICE_API_KEY'],
    ['token', 'apiToken', 'SERVICE_API_TOKEN'],
  ] as const)(
    'takes over when the service drops the first %s, in the same pass',
    async (_n, which, setting) => {
      const { service, mirror } = await mirrored({ [setting]: `${OLD}\n${NEW}` });
      service[which] = NEW;
      edit(service);
      expect((await mirror.pass(SCHEDULED)).exitCode).toBe(0);
      await mirror.expectExact();
      expect(mirror.eventsOf('pass.failed')).toStrictEqual([]);
      expect(credentialEvents(mirror)).toStrictEqual([
        'accepted apiKey 1',
        'accepted apiToken 1',
        `accepted ${which} 2`,
      ]);
    },
  );

  it('takes over in the middle of a pass, with many pulls under way', async () => {
    const { service, mirror } = await mirrored(TWO_KEYS);
    edit(service);
    service.knobs.afterPage = () => {
      service.apiKey = NEW;
    };
    expect((await mirror.pass(SCHEDULED)).exitCode).toBe(0);
    await mirror.expectExact();
    await mirror.pass(SCHEDULED);
    expect(credentialEvents(mirror).slice(2)).toStrictEqual(['accepted apiKey 2']);
  });

  it('is used immediately if it is on the first line of the file, and the old one until it is accepted', async () => {
    const { service, mirror } = await mirrored();
    const file = join(mirror.directory, 'key');
    await writeFile(file, OLD);
    await mirror.restart({ SERVICE_API_KEY: '', SERVICE_API_KEY_FILE: file });
    await mirror.pass(SCHEDULED);
    await writeFile(file, `${NEW}\n${OLD}\n`);
    await mirror.pass(SCHEDULED);
    service.moreKeys.add(NEW);
    await writeFile(file, `\n${NEW}-1\n\n${OLD}\n`);
    await mirror.pass(SCHEDULED);
    await writeFile(file, `${NEW}\n`);
    edit(service);
    await mirror.pass(SCHEDULED);
    await mirror.expectExact();
    const ofKey = credentialEvents(mirror).filter((event) => event.includes('apiKey'));
    expect(ofKey.slice(2)).toStrictEqual(['accepted apiKey 2', 'accepted apiKey 1']);
  });

  it('that is refused, too, ends the pass, and both wait', async () => {
    const { service, mirror } = await mirrored(TWO_KEYS);
    service.apiKey = 'another';
    const error = await mirror.failure(SCHEDULED);
    expect(error).toMatchObject({ code: 'credentials.refused' });
    expect(error.message).toContain('all 2 keys of the setting service.apiKey');
    expect(takeKeys(service)).toStrictEqual([OLD, NEW]);
    await mirror.failure(SCHEDULED);
    expect(service.takeRequests()).toStrictEqual([]);
  });

  it('that equals the first is not tried separately', async () => {
    const { service, mirror } = await mirrored({ SERVICE_API_KEY: `${OLD}\n${OLD}` });
    service.apiKey = NEW;
    await mirror.failure(SCHEDULED);
    expect(takeKeys(service)).toStrictEqual([OLD]);
  });
});

describe('a refused key', () => {
  it.each(['apiKey', 'apiToken'] as const)('(%s) is not sent again by the next passes', async (which) => {
    const { service, mirror } = await mirrored();
    const before = await mirror.context.state.records();
    service[which] = NEW;
    edit(service);
    const first = await mirror.failure(SCHEDULED);
    expect(first.message).toContain(`setting service.${which}.`);
    service.takeRequests();
    for (const trigger of ['schedule', 'drift', 'start'] as const) {
      const error = await mirror.failure({ trigger });
      expect(error).toMatchObject({ code: 'credentials.refused', action: 'stall' });
      expect(`${error.message} ${error.hint}`).toMatch(new RegExp(`tried again after 2.*service.${which}`));
    }
    expect(service.takeRequests()).toStrictEqual([]);
    expect(credentialEvents(mirror).filter((event) => event.startsWith('refused'))).toStrictEqual([
      `refused ${which}`,
    ]);
    expect(await mirror.context.state.records()).toStrictEqual(before);
  });

  it.each(['command', 'signal'] as const)('is tried once when a person asks by %s', async (trigger) => {
    const { service, mirror } = await mirrored();
    service.apiKey = NEW;
    await mirror.failure(SCHEDULED);
    service.takeRequests();
    await mirror.failure({ trigger });
    expect(takeKeys(service)).toStrictEqual([OLD]);
    await mirror.failure(SCHEDULED);
    expect(takeKeys(service)).toStrictEqual([]);
    service.apiKey = OLD;
    await mirror.pass({ trigger });
    await mirror.expectExact();
  });

  it('outlives the process', async () => {
    const { service, mirror } = await mirrored();
    service.apiKey = NEW;
    await mirror.failure(SCHEDULED);
    mirror.events.length = 0;
    service.takeRequests();
    for (let restarts = 0; restarts < 3; restarts += 1) {
      await mirror.restart();
      expect(await mirror.failure({ trigger: 'start' })).toMatchObject({ code: 'credentials.refused' });
    }
    expect(service.takeRequests()).toStrictEqual([]);
    expect(credentialEvents(mirror)).toStrictEqual(Array(3).fill('refused apiKey'));
    await mirror.restart({ SERVICE_API_KEY: NEW });
    await mirror.pass({ trigger: 'start' });
    await mirror.expectExact();
  });

  it('is written down at once, without the key', async () => {
    const { service, mirror } = await mirrored();
    service.apiKey = NEW;
    await mirror.failure(SCHEDULED);
    const folder = join(mirror.directory, '.workbook-mirror');
    const written = async (): Promise<string> => {
      const names = (await readdir(folder)).filter((name) => name.startsWith('state'));
      return (await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1')))).join();
    };
    await expect.poll(written).toContain('"digest"');
    expect(await written()).not.toContain(OLD);
  });

  it('is in no event, no error, no manifest and no record', async () => {
    const { service, mirror } = await mirrored(TWO_KEYS);
    service.apiKey = 'another';
    const errors = [await mirror.failure(SCHEDULED), await mirror.failure(SCHEDULED)];
    const said = `${inspect(errors, { depth: 8 })} ${await mirror.everythingSaid()}`;
    for (const key of [OLD, NEW]) expect(said).not.toContain(key);
  });
});

it('a key that is revoked during a pass fails the targets that are left, and the next pass finds out by the lists', async () => {
  const { service, mirror } = await mirrored({ CONCURRENCY: '1' });
  for (let count = 0; count < 20; count += 1) service.addRepository(`More${count}`, { 'm.xlsx': 'm' });
  service.knobs.afterPage = () => {
    service.apiKey = NEW;
  };
  const failed = Object.values(await mirror.results(SCHEDULED)).filter(
    ({ code }) => code === 'contents.forbidden',
  );
  expect(failed).toHaveLength(20);
  expect(credentialEvents(mirror).slice(2)).toStrictEqual([]);
  await mirror.failure(SCHEDULED);
  expect(credentialEvents(mirror).slice(2)).toStrictEqual(['refused apiKey']);
  service.takeRequests();
  await mirror.failure(SCHEDULED);
  expect(service.takeRequests()).toStrictEqual([]);
  service.apiKey = OLD;
  service.knobs.afterPage = null;
  later(2 * MINUTE_MS);
  await mirror.pass(SCHEDULED);
  await mirror.expectExact();
});

describe('an answer without meaning for the key', () => {
  it('is status 401 of one repository, in every pass: only that one fails', async () => {
    const { service, mirror } = await mirrored({ CONCURRENCY: '1' });
    const { id } = service.named();
    service.faultContents(UNAUTHORIZED, service.named());
    for (let passes = 0; passes < 3; passes += 1) {
      edit(service);
      service.takeRequests();
      expect(await mirror.results()).toMatchObject({
        'Accounting/main': { outcome: 'failed', code: 'contents.forbidden', errorAction: 'retry' },
        'Other/main': { outcome: 'pulled' },
      });
      expect(service.takeRequests().filter((request) => request.includes(id))).toHaveLength(1);
    }
    const [{ message, hint } = { message: '', hint: '' }] = mirror.eventsOf('target.failed');
    expect(`${message} ${hint}`).toMatch(/status 401.*repositories\.exclude/);
    service.fault = null;
    await mirror.pass();
    await mirror.expectExact();
    expect(mirror.eventsOf('credentials.refused')).toStrictEqual([]);
  });

  it('is status 401 of one new repository: it is requested in one form only', async () => {
    const { service, mirror } = await mirrored();
    const repository = service.addRepository('github.com/org/new.git', { 'n.xlsx': 'n' });
    service.faultContents(UNAUTHORIZED, repository);
    service.takeRequests();
    expect((await mirror.pass(SCHEDULED)).exitCode).toBe(1);
    expect(service.takeRequests().filter((request) => request.includes('/contents'))).toHaveLength(1);
    expect(mirror.eventsOf('credentials.refused')).toStrictEqual([]);
  });

  it.each(['/repos', '/v1/workbooks'])('is status 403 of %s: every pass asks', async (list) => {
    const { service, mirror } = await mirrored();
    service.fault = (path) => (path.endsWith(list) ? { kind: 'status', status: 403 } : null);
    for (let passes = 0; passes < 3; passes += 1) {
      expect(await mirror.failure(SCHEDULED)).toMatchObject({ code: 'credentials.refused' });
    }
    expect(service.takeRequests().filter((request) => request.endsWith(list))).toHaveLength(3);
    expect(mirror.eventsOf('credentials.refused')).toStrictEqual([]);
  });

  it.each([
    ['a login page', { kind: 'html' }],
    ['status 500', { kind: 'status', status: 500 }],
    ['status 404', { kind: 'status', status: 404 }],
  ] as const)('is %s: the key counts neither as accepted nor as refused', async (_what, fault) => {
    const { service, mirror } = await startPair();
    service.fault = () => fault;
    await mirror.failure(SCHEDULED);
    expect(credentialEvents(mirror)).toStrictEqual([]);
  });
});

it('a command that ends after a pass reports only changes of a key', async () => {
  const { service } = await mirrored();
  const folder = await temporaryFolder();
  const events: MirrorEvent[] = [];
  const ask = async (): Promise<void> => {
    const old = { SERVICE_API_KEY: OLD, SERVICE_API_TOKEN: OLD };
    const settings = mirrorSettings({ ...service.settingsFor(folder), ...old });
    const mirror = await openMirror(settings, (event) => events.push(event));
    await mirror.context.service.poll(AbortSignal.timeout(250_000), true).catch(() => {});
    await mirror.close();
  };
  await ask();
  service.apiKey = NEW;
  await ask();
  service.apiKey = OLD;
  await ask();
  expect(events.map(({ name }) => name)).toStrictEqual(['credentials.refused', 'credentials.accepted']);
});
