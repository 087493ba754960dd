import { basicPair } from '../../lib/http/access.ts';
import { plainBody, type Reply } from '../../lib/http/reply.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { Changes } from '../git/library.ts';
import type { Credential } from './auth.ts';
import type { Library } from './library.ts';
import type { ServiceRequest } from './messages.ts';
import { decodeSegments, findGitRepository } from './repository-reference.ts';

/** Reads the password of HTTP Basic (RFC 7617); the user name does not matter. @returns an empty text without a password */
export function basicPassword(header: string | undefined): string {
  const [, ...password] = basicPair(header)?.split(':') ?? [];
  return password.join(':');
}

/** The credential of a git client: a personal key, as the password of HTTP Basic. */
export const GIT_CREDENTIAL: Credential = {
  kind: 'personal',
  advice: 'give it as the password; the user name can be any',
  challenge: 'Basic realm="workbook service", charset="UTF-8"',
};

/** A refusal for git clients: they show only plain text to their user. */
export function gitRefusal({ status, message, headers }: RequestError): Reply {
  return {
    status,
    headers: { 'cache-control': 'no-cache', ...headers },
    body: plainBody('text/plain; charset=utf-8', `${message}\n`),
  };
}

/**
 * Answers a git client (gitprotocol-http(5)) with a personal key. It may fetch, and push into drag-and-drop repositories: an external one
 * is changed at its source.
 * @throws RequestError if it is refused
 */
export async function answerGit(
  library: Library,
  changes: Pick<Changes, 'gitReply'>,
  request: ServiceRequest,
): Promise<Reply> {
  // A client asks for the list of branches first, then for a program of Git.
  const { reference = '', asked = '' } = request.parts;
  const program = asked === 'info/refs' ? request.query.get('service') : asked;
  const repositories = await library.repositories();
  const { id, url, full_name } = findGitRepository(repositories, decodeSegments(reference).join('/'));
  if (program === 'git-receive-pack' && url !== null) {
    const message = `${full_name} is connected to an external Git repository: push to ${url}, and the service fetches it`;
    throw new RequestError(403, 'external', message);
  }
  return changes.gitReply(id, asked, request);
}
