import { MirrorError } from '../../lib/errors/errors.ts';
import { withHint } from '../../lib/text/humanize.ts';
import type { ExternalRepository, Registrar } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import type { Credentials } from '../external/credentials.ts';
import { RemoteError, type RemoteTrouble } from '../external/errors.ts';
import type { FetchProblem } from '../external/fetches.ts';
import { readAddress, checkRepositoryName } from './addresses.ts';
import { type Registry, TakenError } from './registry.ts';

/** Lets clients create repositories in a registry, which stays the caller's to close. */
export function createRegistrar(registry: Registry): Registrar {
  return {
    async create(name) {
      try {
        checkRepositoryName(name);
      } catch (error) {
        throw error instanceof MirrorError ? invalid(`name: ${error.message}`) : error;
      }
      return registry.create(name).catch(refuse);
    },
    async connect(external) {
      const { url } = external;
      const reading = readAddress(url, registry.sources);
      if (reading.kind === 'refused') throw new RequestError(400, reading.code, reading.message);
      const credentials = credentialsOf(external);
      if (credentials !== null && reading.address.origin === null) {
        throw invalid('username: a repository of this machine takes no user name and password');
      }
      return registry.announce({ url, address: reading.address, credentials }).catch(refuse);
    },
    fetchSoon: (id) => registry.fetches.soon(id),
  };
}

function invalid(message: string): RequestError {
  return new RequestError(400, 'invalid', message);
}

/**
 * Takes user name and password together: Git asks for both. Fields that are both empty, as a form sends them, are none.
 * @throws RequestError 400
 */
export function credentialsOf({
  username,
  password,
}: Pick<ExternalRepository, 'username' | 'password'>): Credentials | null {
  if ((username ?? '') === '' && (password ?? '') === '') return null;
  if (username === null || username === '') throw invalid('username: is missing beside the password');
  if (password === null) throw invalid('password: is missing beside the user name');
  for (const [field, value] of Object.entries({ username, password })) {
    // A line feed would end the value in what Git reads (git-credential(1)).
    if (/\p{Cc}/u.test(value) || !value.isWellFormed()) {
      throw invalid(`${field}: holds a line feed, or another character that it cannot hold`);
    }
  }
  return { username, password };
}

const TROUBLE_CODES: Readonly<Record<RemoteTrouble, string>> = {
  credentials: 'credentials_refused',
  'too-large': 'too_large',
  unreachable: 'unreachable',
  unsupported: 'unsupported',
};

/** Says what the client can do better, where it is that. */
function refuse(error: unknown): never {
  if (error instanceof TakenError) throw new RequestError(409, 'exists', error.message);
  if (error instanceof RemoteError) {
    const text = withHint({ message: error.message, hint: error.hint ?? null });
    throw new RequestError(422, TROUBLE_CODES[error.trouble], `url: ${text}`);
  }
  throw error;
}

/** Says why a repository cannot be read yet: repeats the words of its server, but nothing about troubles of this machine. */
function describeAbsence(isDamaged: boolean, problem: FetchProblem | null): string {
  const when = isDamaged ? 'again, as the service could not read it any more' : 'for the first time';
  if (problem === null) return `this repository is being cloned ${when}: its contents come when that is done`;
  const { error, nextAttempt } = problem;
  const why = error instanceof RemoteError ? error.message : 'the service has an error, which its log names';
  const next = nextAttempt.toISOString();
  return `this repository is to be cloned ${when}, and that fails: ${why}; the next attempt is at ${next}`;
}

/**
 * Gives the bare repository of a repository that is there already.
 * @returns its absolute path
 * @throws RequestError 503 while it is cloned, for the first time or again
 */
export function presentDirectory(registry: Registry, repositoryId: string): string {
  if (registry.fetches.activityOf(repositoryId) !== 'cloning') return registry.gitDirectory(repositoryId);
  const row = registry.list().find(({ id }) => id === repositoryId);
  const message = describeAbsence(row?.damaged === true, registry.fetches.problemOf(repositoryId));
  // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
  throw new RequestError(503, 'processing', message);
}
