import { describe, expect, it, vi } from 'vitest';

import { againWhileStale } from '../../../../src/lib/disk/stale.ts';

/** As Node throws it: libuv has no name for the error. */
function staleError(): Error {
  const code = 'Unknown system error -116';
  return Object.assign(new Error(`${code}: ${code}, open '/mirror/a'`), { errno: -116, code });
}

describe('a file that another machine replaces', () => {
  it('is read again', async () => {
    let tries = 0;
    const read = (): Promise<string> => {
      tries += 1;
      return tries < 3 ? Promise.reject(staleError()) : Promise.resolve('the new one');
    };
    expect(await againWhileStale(read)).toBe('the new one');
  });

  it('is not read again forever, and not after other errors', async () => {
    let nowMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1000));
    await expect(againWhileStale(() => Promise.reject(staleError()))).rejects.toThrow('-116');
    let tries = 0;
    const read = (): Promise<string> => {
      tries += 1;
      return Promise.reject(new Error('EIO'));
    };
    await expect(againWhileStale(read)).rejects.toThrow('EIO');
    expect(tries).toBe(1);
  });
});
