import { describe, expect, it } from 'vitest';

import { createNotifier } from '../../../../src/daemon/supervision/notify.ts';
import { datagramTo } from '../../../../src/lib/native/datagram.ts';
import { say } from '../../../../src/lib/text/terminal-text.ts';

/** A notifier in an environment, its messages, and their sockets. */
function notifierIn(env: NodeJS.ProcessEnv) {
  const sent: string[] = [];
  const opened: string[] = [];
  const notifier = createNotifier(env, (path) => {
    opened.push(path);
    return (text) => sent.push(text);
  });
  return { notifier, sent, opened };
}

describe('the notifier', () => {
  it('speaks the protocol of sd_notify(3)', () => {
    const { notifier, sent, opened } = notifierIn({ NOTIFY_SOCKET: '/run/systemd/notify' });
    notifier.ready();
    notifier.status(say`pulling Accounting/main`);
    notifier.watchdog();
    notifier.stopping();
    expect(sent).toEqual(['READY=1', 'STATUS=pulling Accounting/main', 'WATCHDOG=1', 'STOPPING=1']);
    expect(opened).toEqual(['/run/systemd/notify']);
  });

  it('sends the start of a reload, by the clock that systemd uses', () => {
    const { notifier, sent } = notifierIn({ NOTIFY_SOCKET: '@abstract' });
    const beforeUsec = process.hrtime.bigint() / 1000n;
    notifier.reloading();
    const afterUsec = process.hrtime.bigint() / 1000n;
    const [, usec = ''] = /^RELOADING=1\nMONOTONIC_USEC=([0-9]+)$/.exec(sent[0] ?? '') ?? [];
    expect(BigInt(usec)).toBeGreaterThanOrEqual(beforeUsec);
    expect(BigInt(usec)).toBeLessThanOrEqual(afterUsec);
  });

  it('does nothing without a listener', () => {
    const { notifier, sent, opened } = notifierIn({ WATCHDOG_USEC: '1000000' });
    notifier.ready();
    notifier.reloading();
    expect([sent, opened, notifier.watchdogIntervalMs]).toEqual([[], [], null]);
  });

  it('hides its variables from the programs that the daemon starts', () => {
    const watched = { WATCHDOG_USEC: '1000000', WATCHDOG_PID: '1' };
    const env = { NOTIFY_SOCKET: '/run/systemd/notify', ...watched, PATH: '/bin' };
    notifierIn(env);
    expect(env).toEqual({ PATH: '/bin' });
  });

  it.each([
    { usec: '30000000', pid: undefined, expected: 30_000 },
    { usec: '30000000', pid: String(process.pid), expected: 30_000 },
    { usec: '30000000', pid: '1', expected: null },
    { usec: '0', pid: undefined, expected: null },
    { usec: '-5', pid: undefined, expected: null },
    { usec: 'soon', pid: undefined, expected: null },
    { usec: undefined, pid: undefined, expected: null },
  ])('is watched according to WATCHDOG_USEC=$usec and WATCHDOG_PID=$pid', ({ usec, pid, expected }) => {
    const { notifier } = notifierIn({ NOTIFY_SOCKET: '/n', WATCHDOG_USEC: usec, WATCHDOG_PID: pid });
    expect(notifier.watchdogIntervalMs).toBe(expected);
  });

  it('sends no second field and no overlong message, for any status', () => {
    const { notifier, sent } = notifierIn({ NOTIFY_SOCKET: '/n' });
    notifier.status(say`one\nMAINPID=1\r\u0000${'€'.repeat(5000)}`);
    expect(sent[0]).toMatch(/^STATUS=one MAINPID=1 €+$/);
    expect(Buffer.byteLength(sent[0] ?? '')).toBeLessThan(4096);
  });

  it('survives a socket that cannot be opened, and one that accepts nothing', () => {
    const unopened = createNotifier({ NOTIFY_SOCKET: '/n' }, () => {
      throw new Error('no such library');
    });
    const deaf = createNotifier({ NOTIFY_SOCKET: '/nobody/listens/here' });
    expect(() => datagramTo('/nobody/listens/here')('READY=1')).toThrow('ENOENT: sendto');
    expect(() => {
      for (const { ready, status, watchdog } of [unopened, deaf]) {
        ready();
        status(say`still here`);
        watchdog();
      }
    }).not.toThrow();
  });
});
