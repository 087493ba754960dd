import { expect, it } from 'vitest';

import { startPair } from '../../../support/mirror-harness.ts';

/** The error of a call on a file system whose server is away. */
function away(): Promise<never> {
  const message = "ENOTCONN: socket is not connected, lstat 'somewhere'";
  return Promise.reject(
    Object.assign(new Error(message), { code: 'ENOTCONN', errno: -107, syscall: 'lstat' }),
  );
}

it('a failed call in a pull is reported as a failed disk, and the pull is retried soon', async () => {
  const { service, mirror } = await startPair();
  service.addRepository('team/book', { 'a.txt': 'a' });
  const { store } = mirror.context;
  const parts = { store: { ...store, gate: { pass: away } } };
  expect(Object.values(await mirror.results({ parts }))).toMatchObject([
    { outcome: 'failed', code: 'disk.failed', errorAction: 'retry' },
  ]);
  expect(Object.values(await mirror.results())).toMatchObject([{ outcome: 'pulled' }]);
});

it('treats a failed call outside pulls as a failed disk, which ends the pass but not the daemon', async () => {
  const { mirror } = await startPair();
  const { store } = mirror.context;
  const { code, action } = await mirror.failure({
    parts: { store: { ...store, inventory: { ...store.inventory, read: away } } },
  });
  expect({ code, action }).toEqual({ code: 'disk.failed', action: 'retry' });
  expect(mirror.eventsOf('pass.failed')).toMatchObject([{ code: 'disk.failed' }]);
  expect((await mirror.pass()).exitCode).toBe(0);
});
