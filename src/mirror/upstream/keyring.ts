import { hash } from 'node:crypto';

import { z } from 'zod';

import { CREDENTIAL_PLACES, type Generation } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type BackOffPolicy, backOffDelayMs, MAX_RETRY_AFTER_MS } from '../../lib/time/back-off.ts';
import { utcTime } from '../../lib/text/humanize.ts';

/** The two generations of the service's API, each with its own credential. */
type CredentialKind = 'apiKey' | 'apiToken';

const CREDENTIALS = {
  current: { kind: 'apiKey', name: 'personal API key of the current API' },
  v1: { kind: 'apiToken', name: 'personal API token of v1' },
} as const satisfies Record<Generation, { readonly kind: CredentialKind; readonly name: string }>;

/**
 * The error for keys that the service refuses (service specification, section 5).
 * @param count how many keys were tried
 * @param advice more sentences for the hint, with a space before
 */
export function credentialRefused(
  generation: Generation,
  status: number,
  { origin, pathname }: URL,
  count = 1,
  advice = '',
): MirrorError {
  const { name } = CREDENTIALS[generation];
  return refusal(generation, `${origin}${pathname} refuses the ${name} (status ${status})`, count, advice);
}

function refusal(generation: Generation, what: string, count: number, advice: string): MirrorError {
  const setting = `service.${CREDENTIALS[generation].kind}`;
  const which = count > 1 ? `all ${count} keys of the setting` : 'setting';
  const renewal = `Create a new one in the service under ${CREDENTIAL_PLACES[generation]} (not a group key), and put it where ${setting} is read from. After a new systemd credential, restart: systemctl restart workbook-mirror.`;
  return new MirrorError('credentials.refused', `${what}: ${which} ${setting}.`, { hint: renewal + advice });
}

/** A refusal of all keys of a generation of the API. */
export const refusedKeysSchema = z.object({
  generation: z.enum(['current', 'v1']),
  /** See {@link digestOf}. */
  digest: z.string(),
  /** How often they were refused in a row. */
  attempts: z.int().min(1),
  /** They are not sent before this time, in milliseconds since the epoch. */
  untilMs: z.number(),
});
export type RefusedKeys = Readonly<z.infer<typeof refusedKeysSchema>>;

/** The service's verdicts on the keys. It outlives the process if it is stored. */
export interface KeyMemory {
  /** Absent or null while nothing was refused. */
  refused?: RefusedKeys | null | undefined;
  /** The last accepted key, by its number and digest. Never outlives the process. */
  accepted?: Map<Generation, string>;
}

/** The facts of the events about keys, by their names. */
export interface KeyEvents {
  /** The service refuses all keys of the setting. Milliseconds since the epoch. */
  'credentials.refused': { credential: CredentialKind; nextAttemptAtMs: number };
  /** `key`: the position of the accepted key in the setting, counted from 1; those before it are refused. */
  'credentials.accepted': { credential: CredentialKind; key: number };
}

/** The service accepts a key, or refuses all keys of a generation. */
export type KeyEvent = {
  [Name in keyof KeyEvents]: { readonly name: Name } & Readonly<KeyEvents[Name]>;
}[keyof KeyEvents];

export interface KeyringOptions {
  /** Returns the present keys of a generation in order; none if none is configured. */
  readonly keys: (generation: Generation) => readonly string[];
  /** Read before each poll, written when the service refuses or accepts keys. */
  readonly keyMemory: KeyMemory;
  /** Called when another key works than before, and when all are refused; not for every request. */
  readonly onKeyEvent?: (event: KeyEvent) => void;
  /** Whether that is also called when the first key works, with nothing known before. */
  readonly reportFirstAccept?: boolean;
}

/** Refused keys may lock an account if they are tried too often, so the tries become ever rarer. */
const REFUSAL_BACK_OFF: BackOffPolicy = { firstDelayMs: 60_000, maxDelayMs: 3_600_000 };

/** Whether refused keys still wait. A wait that ends more than a day ahead was computed with a wrong clock. */
export function isWaiting({ untilMs }: RefusedKeys, nowMs: number): boolean {
  return untilMs > nowMs && untilMs - nowMs <= MAX_RETRY_AFTER_MS;
}

/**
 * The refusal to remember after one more. Parallel requests count once.
 * @param random from 0 up to 1
 */
export function nextRefusal(
  before: RefusedKeys | null,
  keys: Pick<RefusedKeys, 'generation' | 'digest'>,
  nowMs: number,
  random: number,
): RefusedKeys {
  const isSame = before?.digest === keys.digest;
  if (isSame && isWaiting(before, nowMs)) return before;
  const attempts = isSame ? before.attempts + 1 : 1;
  return { ...keys, attempts, untilMs: nowMs + backOffDelayMs(REFUSAL_BACK_OFF, attempts, random) };
}

/** Identifies the keys of a generation, in any order, without revealing them. */
function digestOf(generation: Generation, keys: readonly string[]): string {
  return hash('sha256', JSON.stringify([generation, ...keys.toSorted()]));
}

/** The keys of both generations, and the service's verdicts on them. */
export class Keyring {
  readonly #options: KeyringOptions;
  /** The last reported refusal. */
  #reported: RefusedKeys | null = null;
  /** Keys that were refused when another one was accepted. */
  readonly #refused = { current: new Set<string>(), v1: new Set<string>() };
  /** Every key seen so far. */
  readonly #seen = new Set<string>();

  constructor(options: KeyringOptions) {
    this.#options = options;
  }

  /** Whether a key of this generation is configured. */
  hasKey(generation: Generation): boolean {
    return this.#keysOf(generation).length > 0;
  }

  /**
   * Call this before a poll: it prevents requests while all keys of a generation wait after a refusal.
   * @param isUrgent a user waits: waiting keys are tried once more
   * @throws MirrorError `credentials.refused` while they wait
   */
  admit(isUrgent: boolean): void {
    const refused = this.#options.keyMemory.refused ?? null;
    if (isUrgent || refused === null || !isWaiting(refused, Date.now())) return;
    const { generation, digest, untilMs } = refused;
    const keys = this.#keysOf(generation);
    if (digestOf(generation, keys) !== digest) return;
    this.#report(refused);
    const what = `The service refused the ${CREDENTIALS[generation].name}, which is tried again after ${utcTime(untilMs)}`;
    const next = ' `run` uses a changed file at once; SIGHUP and `sync` try the same key again.';
    throw refusal(generation, what, keys.length, this.#doubt() + next);
  }

  /** The keys to try, in their order, refused ones last. */
  inOrder(generation: Generation): readonly string[] {
    const keys = this.#keysOf(generation);
    if (keys.length === 0) {
      throw new MirrorError('internal.defect', `There is no key for the API's generation ${generation}.`);
    }
    const refused = this.#refused[generation];
    return [...keys.filter((key) => !refused.has(key)), ...keys.filter((key) => refused.has(key))];
  }

  /** Notes that the service accepted a key. @param refused the keys that it refused just before */
  accept(generation: Generation, key: string, refused: readonly string[]): void {
    const number = this.#keysOf(generation).indexOf(key) + 1;
    // It was removed from its file while the request was running.
    if (number === 0) return;
    for (const each of refused) this.#refused[generation].add(each);
    this.#refused[generation].delete(key);
    const { keyMemory, onKeyEvent, reportFirstAccept = false } = this.#options;
    const wereRefused = keyMemory.refused?.generation === generation;
    if (wereRefused) keyMemory.refused = null;
    const accepted = (keyMemory.accepted ??= new Map<Generation, string>());
    const before = accepted.get(generation);
    const now = `${number} ${digestOf(generation, [key])}`;
    accepted.set(generation, now);
    // The first key is expected to work.
    const isExpected = before === undefined && number === 1 && !reportFirstAccept;
    if (wereRefused || (before !== now && !isExpected))
      onKeyEvent?.({ name: 'credentials.accepted', credential: CREDENTIALS[generation].kind, key: number });
  }

  /** Notes that the service refused all keys of a generation: they wait from now on. Returns the error. */
  refuse(generation: Generation, keys: readonly string[], url: URL): MirrorError {
    const { keyMemory } = this.#options;
    const refused = { generation, digest: digestOf(generation, keys) };
    keyMemory.refused = nextRefusal(keyMemory.refused ?? null, refused, Date.now(), Math.random());
    this.#report(keyMemory.refused);
    return credentialRefused(generation, 401, url, keys.length, this.#doubt());
  }

  /** Every key, also replaced ones, to keep them out of every text. */
  values(): readonly string[] {
    for (const generation of ['current', 'v1'] as const) this.#keysOf(generation);
    return [...this.#seen];
  }

  /** Advice for a hint: if both generations have keys, they may be swapped. */
  #doubt(): string {
    return this.hasKey('current') && this.hasKey('v1')
      ? ' Or service.apiKey and service.apiToken are swapped, or equal: they are two secrets.'
      : '';
  }

  #keysOf(generation: Generation): readonly string[] {
    const keys = this.#options.keys(generation);
    for (const key of keys) this.#seen.add(key);
    return keys;
  }

  #report(refused: RefusedKeys): void {
    if (refused === this.#reported) return;
    this.#reported = refused;
    const { generation, untilMs } = refused;
    const credential = CREDENTIALS[generation].kind;
    this.#options.onKeyEvent?.({ name: 'credentials.refused', credential, nextAttemptAtMs: untilMs });
  }
}
