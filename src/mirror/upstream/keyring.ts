import { createHmac, randomBytes } from 'node:crypto';

import type { Generation } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { CredentialPlace } from '../pass/events.ts';
import {
  attemptsOf,
  type Refusal,
  refusedUntilMs,
  triedAnew,
  withoutRefusal,
  withRefusal,
} from './key-refusals.ts';
import { contentsRefused, credentialRefused, credentialStalled, type KeyPair } from './failures.ts';

/** Where a key comes from. */
export interface KeySource {
  readonly place: CredentialPlace;
  /** Gives the key as it is now: it may change at any time. */
  readonly reveal: () => string;
}

/** Which keys were refused; outlives the process where it is remembered. */
export interface RefusalMemory {
  /** Replaced as a whole when it changes; absent or null while nothing was refused. */
  refused?: RefusedKeys | null;
  /** Reports about the keys; never outlives the process. */
  said?: SaidOfKeys;
}

/** The last report about each key, by generation and place; with digests as below. */
interface SaidOfKeys {
  readonly salt: string;
  readonly texts: Map<string, string>;
}

/** Keys that were refused, by digests that are worth nothing without the keys. */
export interface RefusedKeys {
  readonly salt: string;
  readonly refusals: readonly Refusal[];
}

/** The service accepts or refuses a key. Time in milliseconds since the epoch. */
export type KeyChange = { readonly generation: Generation; readonly place: CredentialPlace } & (
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly nextAttemptAtMs: number }
);

export interface KeyringOptions {
  /** The keys of each generation, the first one first; none where none is configured. */
  readonly keys: Readonly<Record<Generation, readonly KeySource[]>>;
  /** Which keys were refused: read before each request, written to as the service refuses and accepts. */
  readonly refusals: RefusalMemory;
  /** Called when what is known of a key has changed, not for every request. */
  readonly onKeyChange?: (change: KeyChange) => void;
  /** Whether that is also called when the first key of a generation is accepted, of which nothing was known before. */
  readonly reportFirstAccept?: boolean;
  /** Whether this is for one run only: then no refusal says when a key is tried again. */
  readonly oneShot?: boolean;
}

/** A key as it was when it was chosen. */
export interface Key {
  readonly generation: Generation;
  readonly place: CredentialPlace;
  readonly value: string;
  /** Salted, of the generation and the value. */
  readonly digest: string;
  /** How often it had been refused in a row when it was chosen. */
  readonly attemptsBefore: number;
}

/** After so many refusals in a row that may be about what was asked for, it is found out whether they are about the key. */
const DOUBTS_TO_JUDGE = 3;

/** The keys, and what the service said of them. */
export class Keyring {
  readonly #options: KeyringOptions;
  readonly #salt: string;
  /** Which place gave the key that worked last. */
  readonly #preferred = new Map<Generation, CredentialPlace>();
  readonly #said: Map<string, string>;
  /** How often keys were refused in a row for what may be about what was asked for, by generation and digest. */
  readonly #doubts = { current: new Map<string, number>(), v1: new Map<string, number>() };
  /** Every key that was seen. */
  readonly #values = new Set<string>();

  constructor(options: KeyringOptions) {
    this.#options = options;
    const { refusals } = options;
    // Two keyrings over one memory, as while settings change, must know each other's digests.
    refusals.said ??= {
      salt: refusals.refused?.salt ?? randomBytes(16).toString('hex'),
      texts: new Map(),
    };
    this.#salt = refusals.said.salt;
    this.#said = refusals.said.texts;
  }

  /** Whether a key of this generation is configured. */
  hasKey(generation: Generation): boolean {
    return this.#options.keys[generation].length > 0;
  }

  /**
   * To be asked before a poll, so that no request at all is sent while the keys of either generation all wait.
   * @param isUrgent a person waits: keys that wait are tried once more
   * @throws MirrorError `credentials.refused` while all keys of a generation wait
   */
  admit(isUrgent: boolean): void {
    for (const generation of ['current', 'v1'] as const) {
      const keys = this.#keysOf(generation);
      if (keys.length === 0 || keys.some((key) => this.#waitsUntilMs(key) === null)) continue;
      if (!isUrgent) throw this.#stalled(generation);
      const digests = keys.map(({ digest }) => digest);
      this.#remember(triedAnew(this.#refusals, digests, Date.now()));
    }
  }

  /**
   * The key to send: the one that worked last, else the first one that does not wait.
   * @param declined those that were refused just now, for what is at the address
   * @throws MirrorError `credentials.refused` when no key is left; `contents.forbidden` when none is let in and it may be about
   *   what is asked for alone
   */
  next(generation: Generation, declined: readonly Key[], url: URL): Key {
    if (!this.hasKey(generation)) {
      throw new MirrorError('internal.defect', `There is no key for the API's generation ${generation}.`);
    }
    const left = this.#keysOf(generation).filter(
      (key) => this.#waitsUntilMs(key) === null && !declined.some(({ digest }) => digest === key.digest),
    );
    const key = left.find(({ place }) => place === this.#preferred.get(generation)) ?? left[0];
    if (key !== undefined) return key;
    if (declined.length === 0) throw this.#stalled(generation);
    if (declined.some((each) => this.#waitsUntilMs(each) === null)) throw contentsRefused(url);
    throw credentialRefused(
      generation,
      401,
      url,
      { places: this.#places(generation), pair: this.pair() },
      this.#nextAttemptAtMs(generation),
    );
  }

  /** Notes that one key is let in where others were not: it was about the keys. */
  prefer(key: Key, declined: readonly Key[]): void {
    for (const other of declined) this.refuse(other, 0);
    this.accept(key);
  }

  /** Notes that the service refused a key: it waits from now on. `retryAfterMs`: what the answer asked for, 0 if nothing. */
  refuse(key: Key, retryAfterMs: number): void {
    const { digest, attemptsBefore } = key;
    const refused = { digest, attemptsBefore, nowMs: Date.now(), random: Math.random(), retryAfterMs };
    this.#remember(withRefusal(this.#refusals, refused));
    this.#announceRefusal(key);
  }

  /**
   * Notes that a key was refused where that may be about what was asked for alone. Gives true when that was so several times in
   * a row, and it is time to find out.
   */
  doubt({ generation, digest }: Key): boolean {
    const doubts = this.#doubts[generation];
    const inRow = ((doubts.get(digest) ?? 0) + 1) % DOUBTS_TO_JUDGE;
    doubts.set(digest, inRow);
    return inRow === 0;
  }

  /** Every key, also those that were replaced since they were seen, to keep them out of every text. */
  values(): readonly string[] {
    for (const generation of ['current', 'v1'] as const) this.#keysOf(generation);
    return [...this.#values];
  }

  /** Whether the keys of the two generations may be in each other's place. */
  pair(): KeyPair {
    const [keys, tokens] = [this.#keysOf('current'), this.#keysOf('v1')];
    if (keys.length === 0 || tokens.length === 0) return 'single';
    return keys.some(({ value }) => tokens.some((token) => token.value === value)) ? 'equal' : 'different';
  }

  /** Notes that the service accepted a key. */
  accept(key: Key): void {
    const { digest, generation, place, attemptsBefore } = key;
    // A long download that began before the key was refused says nothing of now.
    if (attemptsOf(this.#refusals, digest) !== attemptsBefore) return;
    if (attemptsBefore > 0) this.#remember(withoutRefusal(this.#refusals, digest));
    this.#preferred.set(generation, place);
    this.#doubts[generation].clear();
    const isFirst =
      attemptsBefore === 0 && ![...this.#said.keys()].some((about) => about.startsWith(`${generation} `));
    this.#announce(
      key,
      { kind: 'accepted', generation, place },
      isFirst && this.#options.reportFirstAccept !== true,
    );
  }

  /** The error while all keys of a generation wait. */
  #stalled(generation: Generation): MirrorError {
    const keys = this.#keysOf(generation);
    for (const key of keys) this.#announceRefusal(key);
    const refused = { places: this.#places(generation), pair: this.pair() };
    return credentialStalled(generation, refused, this.#nextAttemptAtMs(generation));
  }

  /** Where the keys of a generation come from. */
  #places(generation: Generation): CredentialPlace[] {
    return this.#options.keys[generation].map(({ place }) => place);
  }

  /**
   * When a key of a generation that waits may be sent again, in milliseconds since the epoch; null when none waits, or nobody
   * would send it.
   */
  #nextAttemptAtMs(generation: Generation): number | null {
    if (this.#options.oneShot === true) return null;
    const times = this.#keysOf(generation).map((key) => this.#waitsUntilMs(key));
    const known = times.filter((time) => time !== null);
    return known.length === 0 ? null : Math.min(...known);
  }

  get #refusals(): readonly Refusal[] {
    return this.#options.refusals.refused?.refusals ?? [];
  }

  #remember(refusals: readonly Refusal[]): void {
    if (refusals === this.#refusals) return;
    this.#options.refusals.refused = refusals.length === 0 ? null : { salt: this.#salt, refusals };
  }

  #keysOf(generation: Generation): Key[] {
    return this.#options.keys[generation].map(({ place, reveal }) => {
      const value = reveal();
      this.#values.add(value);
      const digest = createHmac('sha256', this.#salt).update(`${generation} ${value}`).digest('hex');
      return { generation, place, value, digest, attemptsBefore: attemptsOf(this.#refusals, digest) };
    });
  }

  #waitsUntilMs({ digest }: Key): number | null {
    return refusedUntilMs(this.#refusals, digest, Date.now());
  }

  #announceRefusal(key: Key): void {
    const nextAttemptAtMs = this.#waitsUntilMs(key);
    const { generation, place } = key;
    if (nextAttemptAtMs !== null)
      this.#announce(key, { kind: 'refused', generation, place, nextAttemptAtMs });
  }

  #announce({ digest }: Key, change: KeyChange, isSilent = false): void {
    const about = `${change.generation} ${change.place}`;
    const what = JSON.stringify([digest, change]);
    if (this.#said.get(about) === what) return;
    this.#said.set(about, what);
    if (!isSilent) this.#options.onKeyChange?.(change);
  }
}
