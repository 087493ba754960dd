import { MirrorError } from '../../lib/errors/errors.ts';

const NAME_SHOWN = 200;

/** A name for messages: quoted, cut, and without characters that act on a terminal or cannot be seen. */
export function quoted(name: string): string {
  const shown = name.length > NAME_SHOWN ? `${name.slice(0, NAME_SHOWN)}…` : name;
  return JSON.stringify(shown).replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`,
  );
}

/** A reason why the policy refuses an archive. */
export interface Refusal {
  /** A full sentence that names the entry. */
  readonly message: string;
  /** A remedy, where that is not to correct the entry. */
  readonly advice?: string;
}

/** The refusal of an entry; the fault goes on where the entry's name ends. */
export function entryRefusal(name: string, fault: string, advice?: string): Refusal {
  const message = `The archive's entry ${quoted(name)} ${fault}.`;
  return advice === undefined ? { message } : { message, advice };
}

const REFUSALS_NAMED = 5;

/** Collects what is wrong with an archive, so that a person learns of it at once; keeps no more than is shown. */
export class Refusals {
  private readonly named: Refusal[] = [];
  private count = 0;

  add(refusal: Refusal): void {
    this.count += 1;
    if (this.named.length < REFUSALS_NAMED) this.named.push(refusal);
  }

  /** @throws MirrorError `archive.refused`, naming the first refusals, if there are any */
  throwIfAny(): void {
    if (this.count === 0) return;
    const others = this.count - this.named.length;
    const messages = this.named.map(({ message }) => message);
    if (others > 0) messages.push(others === 1 ? 'So is 1 other.' : `So are ${others} others.`);
    const advice =
      this.named.find((refusal) => refusal.advice !== undefined)?.advice ?? 'Correct it in the service';
    throw new MirrorError('archive.refused', messages.join(' '), {
      hint: `The published tree stays as it is. ${advice}; it is tried again when its versions or these settings change, after an hour, or at once by \`retry\`.`,
    });
  }
}

/** The error for an archive that is not whole: the download is worth another try. */
export function damaged(message: string, cause?: unknown): MirrorError {
  return new MirrorError('archive.damaged', message, {
    cause,
    hint: 'If it keeps failing, look for a proxy that changes or cuts answers.',
  });
}

/** The error for an entry that is not whole; the fault goes on where the entry's name ends. */
export function damagedEntry(name: string, fault: string, cause?: unknown): MirrorError {
  return damaged(`The archive's entry ${quoted(name)} ${fault}.`, cause);
}
