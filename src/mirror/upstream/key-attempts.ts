import type { Generation } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { contentsRefused, credentialRefused } from './failures.ts';
import type { Key, Keyring } from './keyring.ts';

/** What became of a request with one key. */
export type Asked<T> =
  | { readonly kind: 'answered'; readonly status: number; readonly value: T }
  /** Status 401. `retryAfterMs`: what the answer asked for, 0 if nothing. */
  | { readonly kind: 'refused'; readonly url: URL; readonly retryAfterMs: number };

/** What a request tells of the key that it is sent with. */
export interface KeyRequest {
  readonly generation: Generation;
  /** Whether status 401 is about the key, and not perhaps about what is asked for alone. */
  readonly judgesKey: boolean;
}

/**
 * Asks with the key that worked last and, where that is refused, with the other one at once. A key that was refused is not
 * sent again while it is unchanged and its back off lasts.
 * @param ask sends the request with a key, and reads the answer
 * @param judge finds out whether the service lets a key in at all; asked after several requests in a row that do not tell, so that
 *   a key that is revoked while a pass is under way is not sent for each of its targets
 * @throws MirrorError `credentials.refused` when no key is left; `contents.forbidden` when none is let in and it may be about what
 *   is asked for alone; and what `ask` throws
 */
export async function askWithKeys<T>(
  keyring: Keyring,
  { generation, judgesKey }: KeyRequest,
  ask: (key: Key) => Promise<Asked<T>>,
  judge: (key: Key) => Promise<void>,
): Promise<T> {
  if (!keyring.hasKey(generation)) {
    throw new MirrorError('internal.defect', `There is no key for the API's generation ${generation}.`);
  }
  let key = keyring.choose(generation, []);
  if (key === null) throw keyring.stalled(generation);
  const declined: Key[] = [];
  for (;;) {
    const asked = await ask(key);
    if (asked.kind === 'answered') {
      if (isWelcome(asked.status)) settle(keyring, key, declined);
      return asked.value;
    }
    declined.push(key);
    if (judgesKey) keyring.refuse(key, asked.retryAfterMs);
    else if (keyring.doubt(key)) await judge(key);
    key = keyring.choose(generation, declined);
    if (key === null) {
      if (!keyring.areRefused(declined)) throw contentsRefused(asked.url);
      const untilMs = keyring.nextAttemptAtMs(generation);
      throw credentialRefused(generation, 401, asked.url, keyring.places(generation), untilMs);
    }
  }
}

/** One key is let in where others were not: it was about the keys. */
function settle(keyring: Keyring, key: Key, declined: readonly Key[]): void {
  for (const other of declined) keyring.refuse(other, 0);
  keyring.accept(key);
}

/** Whether an answer could be read and was one for those who are let in: with other statuses, nobody knows. */
function isWelcome(status: number): boolean {
  return status === 200 || status === 201 || status === 304;
}
