import { packableBody, type Reply } from '../../lib/http/reply.ts';
import { PAGE_HEADERS } from '../../lib/http/page-files.ts';
import { bodyOf, invalid, RequestError } from '../../lib/http/request.ts';
import { nameFault } from '../../lib/paths/file-name.ts';
import type { KnownKey } from '../keys/keys.ts';
import type { Changes } from '../git/library.ts';
import { type Credential, requireKey } from '../http/auth.ts';
import type { Library, Repository, Upload } from '../http/library.ts';
import type { ServiceRequest } from '../http/messages.ts';
import { findRepository } from '../http/repository-reference.ts';
import { readForm, readText } from './multipart.ts';

/** The fields before the files, in the order of the form. */
const FIELDS = ['key', 'repository', 'branch', 'folder', 'message'] as const;
type Fields = Partial<Record<(typeof FIELDS)[number], string>>;

/** Most files in one commit; git gets their names as arguments. */
const FILES_LIMIT = 500;

const CREDENTIAL: Credential = {
  kind: 'personal',
  advice: '`workbook-mirror keys create --kind personal` makes one',
};

/**
 * The form, filled in except for the key and the files.
 * @param template the text of the page, with placeholders `{{name}}`
 * @param result of an upload, as the page shows it; empty before one
 */
export function formReply(template: string, fields: Fields = {}, status = 200, result = ''): Reply {
  const { key: _, ...shown } = fields;
  const isNew = result === '';
  const outcome = isNew ? '' : status < 400 ? 'done' : 'failed';
  const values: Readonly<Record<string, string>> = { ...shown, result, outcome };
  const html = template.replaceAll(/\{\{(\w+)\}\}/g, (__, name: string) => escaped(values[name] ?? ''));
  const policy = PAGE_HEADERS['content-security-policy'] ?? '';
  return {
    status,
    headers: {
      ...PAGE_HEADERS,
      'content-security-policy': policy.replace("form-action 'none'", "form-action 'self'"),
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': isNew ? 'no-cache' : 'no-store',
    },
    body: packableBody('text/html; charset=utf-8', html, isNew ? html : null),
  };
}

/** Escapes text for HTML, within an element or a quoted attribute. */
function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

/**
 * Receives an upload from the form, and answers with the form and the result.
 *
 * The key is a field of the form, which a browser never sends from another page; it comes before the files, so that no file of a
 * stranger is stored.
 */
export async function answerUpload(
  template: string,
  library: Library,
  uploads: Pick<Changes, 'receive' | 'commit'>,
  request: ServiceRequest,
): Promise<Reply> {
  const fields: Fields = {};
  try {
    return formReply(template, fields, 200, await takeUpload(library, uploads, request, fields));
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    const reply = formReply(template, fields, error.status, `Not uploaded: ${error.message}.`);
    return { ...reply, headers: { ...reply.headers, ...error.headers } };
  }
}

/**
 * @param fields receives the fields as they come
 * @returns the result for people
 * @throws RequestError if it is refused; nothing is committed then
 */
async function takeUpload(
  library: Library,
  uploads: Pick<Changes, 'receive' | 'commit'>,
  { keys, headers, body }: ServiceRequest,
  fields: Fields,
): Promise<string> {
  let target: { readonly key: KnownKey; readonly repository: Repository } | null = null;
  const files = new Map<string, Upload['files'][number] & { readonly isAsNamed: boolean }>();
  for await (const { name, fileName, bytes } of readForm(headers['content-type'] ?? '', bodyOf(body))) {
    const field = FIELDS.find((each) => each === name);
    if (field !== undefined) {
      fields[field] = await readText(bytes);
      continue;
    }
    // A key copied from a file may end with a line feed.
    const key = requireKey(CREDENTIAL, (fields.key ?? '').trim(), keys);
    if (fileName !== null && fileName !== '') {
      target ??= { key, repository: chooseRepository(await library.repositories(), fields.repository ?? '') };
      const path = pathOf(fields.folder ?? '', fileName);
      if (files.size === FILES_LIMIT) throw invalid(`an upload may have ${FILES_LIMIT} files`);
      if (files.has(path)) throw invalid(`${path} occurs twice in the upload`);
      files.set(path, { path, ...(await uploads.receive(target.repository.id, fileName, bytes)) });
    }
  }
  if (target === null) throw invalid('no file was chosen');
  const { key, repository } = target;
  const upload = uploadOf(key.name, fields, [...files.values()]);
  const { branch, commitId } = await uploads.commit(repository.id, upload);
  const done = `Committed to ${repository.name}, branch ${branch}, as ${commitId.slice(0, 7)}:`;
  const odd = [...files.values()].filter(({ isAsNamed }) => !isAsNamed);
  const fault = 'is named as a workbook, but is not one, or is damaged. It was committed unchanged.';
  const warnings = odd.map(({ path }) => `Warning: ${path} ${fault}`);
  return [done, ...files.keys(), ...warnings].join('\n');
}

/**
 * Finds the repository of an upload. Only drag-and-drop repositories accept files (service specification, section 1); they have no
 * address.
 * @throws RequestError 404, 409
 */
function chooseRepository(repositories: readonly Repository[], reference: string): Repository {
  const repository = findRepository(repositories, reference);
  if (repository === undefined) {
    const names = repositories.filter(({ url }) => url === null).map(({ name }) => name);
    const message = `there is no repository ${reference}; these accept files: ${names.join(', ') || 'none'}`;
    throw new RequestError(404, 'repository_not_found', message);
  }
  if (repository.url === null) return repository;
  const advice = 'commit to that one, and the service fetches it';
  const message = `${repository.full_name} is connected to an external Git repository: ${advice}`;
  throw new RequestError(409, 'external', message);
}

/** The path of a file in the repository. @throws RequestError 400 for a path that a mirror would refuse */
function pathOf(folder: string, fileName: string): string {
  const segments = folder.split('/').map((segment) => segment.trim());
  const path = [...segments.filter((segment) => segment !== ''), fileName].join('/');
  const fault = nameFault(path);
  if (fault !== null) throw invalid(`${JSON.stringify(path)} ${fault}`);
  return path;
}

function uploadOf(author: string, { branch = '', message = '' }: Fields, files: Upload['files']): Upload {
  if (/\p{Cc}/u.test(branch)) throw invalid('the name of a branch holds no control characters');
  // A form sends CR LF; Git wants LF, and no NUL.
  const written = message.replaceAll('\r\n', '\n').replaceAll('\0', '').trim();
  const [first] = files;
  const usual = files.length === 1 ? `Upload ${first?.path}` : `Upload ${files.length} files`;
  return { author, branch: branch.trim(), message: written === '' ? usual : written, files };
}
