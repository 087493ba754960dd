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
  if (name.trim() === '' || name !== name.trim()) refuse('is empty or begins or ends with a space');
  if (name === '.' || name === '..' || /[/\\\p{Cc}]/u.test(name))
    refuse('holds a slash or a control character');
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) refuse(`is longer than ${NAME_LIMIT_BYTES} bytes`);
}

/**
 * Gives the names of an external repository from its address (section 2.1): the short name is the last segment without
 * `.git`, the full name is the address without the scheme.
 * @param url the address as submitted, `https://<host>/<path>.git`
 * @throws MirrorError `usage.invalid` for any other form, also for one with credentials in it
 */
export function namesOfAddress(url: string): { readonly name: string; readonly fullName: string } {
  const match = /^https?:\/\/([^/?#@\s\\]+(?:\/[^/?#@\s\\]+)*\/([^/?#@\s\\]+)\.git)$/i.exec(url);
  const [, fullName, name] = match ?? [];
  if (
    fullName === undefined ||
    name === undefined ||
    !URL.canParse(url) ||
    fullName.split('/').includes('..')
  ) {
    // The address is not repeated: it may hold a password.
    throw new MirrorError(
      'usage.invalid',
      'the address of a Git repository has the form https://<host>/<path>.git',
      {
        hint: 'Leave out user name, password, query and fragment, and end the address with .git.',
      },
    );
  }
  return { name, fullName };
}
