import { MirrorError } from '../../lib/errors/errors.ts';

const NAME_LIMIT_BYTES = 255;

/** Writes an instant as the current API does: microseconds and `+00:00` (service specification, section 2.1). */
export function formatCreatedAt(instant: Date): string {
  return instant.toISOString().replace('Z', '000+00:00');
}

/** The last second that is written with four digits of the year, as ISO 8601 has them, in seconds since 1970. */
const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/**
 * Writes an instant as v1 does: no fraction (section 2.3). A commit may claim any time, or none: what cannot be written becomes
 * the nearest instant that can be, and no number 1970, as git shows it.
 * @param seconds whole seconds since 1970
 */
export function formatVersionTime(seconds: number): string {
  const written = Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds, 0), LAST_SECOND);
  return new Date(written * 1000).toISOString().replace('.000Z', '+00:00');
}

/** What steers how other characters are shown, and what shows as nothing: two names that look alike would be two repositories. */
const INVISIBLE = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u200b\u2060\ufeff]/u;

/** The form of ids (section 2.1), by which repositories are found before they are by name. */
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Checks the name of a drag-and-drop repository. The specification names no limits (section 2.1); ours keep the name one
 * visible segment of an address.
 * @throws MirrorError `usage.invalid`
 */
export function checkRepositoryName(name: string): void {
  const refuse = (why: string): never => {
    throw new MirrorError('usage.invalid', `the repository name ${JSON.stringify(name)} ${why}`);
  };
  if (!name.isWellFormed()) refuse('holds half of a character');
  if (name.trim() === '' || name !== name.trim()) refuse('is empty or begins or ends with a space');
  if (name === '.' || name === '..' || /[/\\]/.test(name)) refuse('holds a slash, or leads elsewhere');
  if (INVISIBLE.test(name)) refuse('holds a control character, or one that nobody sees');
  if (!/[\p{L}\p{N}]/u.test(name)) refuse('holds neither a letter nor a digit');
  if (ID.test(name)) refuse('has the form of an id');
  // Addresses of Git end so, with or without it: it would be the address of another repository.
  if (/\.git$/i.test(name)) refuse('ends with .git');
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) refuse(`is longer than ${NAME_LIMIT_BYTES} bytes`);
}
