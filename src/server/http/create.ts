import { z } from 'zod';

import { contentsPath } from '../../lib/api/requests.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { invalid, readJson } from '../../lib/http/request.ts';
import type { Changes } from '../git/library.ts';
import type { ExternalRepository } from './library.ts';
import { BASE_PATH, jsonReply, presentRepository, type ServiceRequest } from './messages.ts';

/** An address, a name and two credentials are far shorter. */
const LIMIT_BYTES = 64 * 1024;

const text = z.string('must be a string').nullish();
const BODY = z.object(
  { name: text, url: text, username: text, password: text },
  'the body of this request must be a JSON object with name, or with url',
);

/**
 * Reads the body of a request that creates a repository. Unknown fields are ignored.
 * @returns the name of a drag-and-drop repository, or an external one (service specification, section 4.1)
 * @throws RequestError 400 for anything but one of the two shapes, naming the field; no value is repeated
 */
export function readCreation(body: unknown): string | ExternalRepository {
  const { data, error } = BODY.safeParse(body);
  if (data === undefined)
    throw invalid(error.issues.map(({ path, message }) => [...path, message].join(': '))[0] ?? '');
  const { name = null, url = null, username = null, password = null } = data;
  if ((name === null) === (url === null))
    throw invalid('name: or url is required, not both: a name creates a drag-and-drop repository');
  if (url !== null) return { url, username, password };
  if ((username ?? '') !== '' || (password ?? '') !== '')
    throw invalid('username: and password belong to a Git repository, which is named by url');
  return name ?? '';
}

/**
 * Answers a request that creates a repository: with the repository, which is listed by that time. `Location` is the address of its
 * contents, as the API has no other address of a single repository.
 * @throws RequestError 400 for a body that is not valid, 413 for a long one, and as the registry
 */
export async function answerCreate(
  changes: Pick<Changes, 'create' | 'connect'>,
  { body }: Pick<ServiceRequest, 'body'>,
): Promise<Reply> {
  const creation = readCreation(await readJson(body, LIMIT_BYTES));
  const isNamed = typeof creation === 'string';
  const repository = await (isNamed ? changes.create(creation) : changes.connect(creation));
  return jsonReply(201, presentRepository(repository), {
    location: BASE_PATH + contentsPath(repository.id),
  });
}
