import { MirrorError } from '../model/errors.ts';

const NAME_LIMIT_BYTES = 255;

/** Writes an instant as the current API does: microseconds and `+00:00` (service specification, section 2.1). */
export function formatCreatedAt(instant: Date): string {
  return instant.toISOString().replace('Z', '000+00:00');
}

/**
 * Writes an instant as v1 does: no fraction (section 2.3).
 * @param seconds whole seconds since 1970
 */
export function formatVersionTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace('.000Z', '+00:00');
}

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
  if (name === '.' || name === '..' || /[/\\\p{Cc}]/u.test(name))
    refuse('holds a slash or a control character');
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) refuse(`is longer than ${NAME_LIMIT_BYTES} bytes`);
}
