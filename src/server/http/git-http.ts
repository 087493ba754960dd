import { basicPair } from '../../lib/http/access.ts';
import { plainBody, type Reply } from '../../lib/http/reply.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { Changes } from '../git/library.ts';
import type { Credential } from './auth.ts';
import { GIT_PROGRAMS, type Library } from './library.ts';
import { decodeSegments, findGitRepository } from './repository-reference.ts';
import type { ServiceRequest } from './request.ts';

/** Reads the password of HTTP Basic (RFC 7617); the user name does not matter. @returns an empty text without a password */
export function basicPassword(header: string | undefined): string {
  const pair = basicPair(header) ?? '';
  return pair.includes(':') ? pair.slice(pair.indexOf(':') + 1) : '';
}

/** The credential of a git client: a personal key, as the password of HTTP Basic. */
export const GIT_CREDENTIAL: Credential = {
  kind: 'personal',
  name: 'the personal API key',
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
 * @param reference name of the repository, still encoded, without the `.git` that addresses of Git end with
 * @param asked `info/refs`, with which a client asks for the list of branches first, or a program of Git
 * @throws RequestError if it is refused
 */
export async function answerGit(
  library: Library,
  changes: Pick<Changes, 'gitReply'>,
  reference: string,
  asked: string,
  { method, headers, query, body }: ServiceRequest,
  signal: AbortSignal,
): Promise<Reply> {
  const isAdvertisement = asked === 'info/refs';
  const named = isAdvertisement ? query.get('service') : asked;
  const program = GIT_PROGRAMS.find((known) => known === named) ?? null;
  const repositories = await library.repositories();
  const { id, url, full_name } = findGitRepository(repositories, decodeSegments(reference).join('/'));
  if (program === 'git-receive-pack' && url !== null) {
    const message = `${full_name} is connected to an external Git repository: push to ${url}, and the service fetches it`;
    throw new RequestError(403, 'external', message);
  }
  return changes.gitReply(id, { program, isAdvertisement, method, headers, body }, signal);
}
