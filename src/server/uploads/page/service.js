/** The page's requests to the service. */

import { sentence } from '../../../lib/page/text.js';

/** @typedef {{ id: string, name: string, full_name: string, url: string | null, takesFiles: boolean }} Repository */
/** @typedef {{ maxUploadBytes: number, repositories: Repository[] }} RepositoryList */
/** @typedef {{ defaultBranch: string | null, branches: { name: string, commitId: string }[] }} BranchList */
/** @typedef {{ name: string, kind: 'folder' | 'file', sizeBytes: number }} Entry */
/**
 * @typedef {object} Commit
 * @property {string} branch
 * @property {string | null} seenCommitId
 * @property {string | null} startFrom
 * @property {string} message
 * @property {{ path: string, blobId: string }[]} files
 */
/** @typedef {Pick<Commit, 'branch' | 'seenCommitId' | 'startFrom'> & { paths: string[] }} Question */
/** @typedef {{ problems: { path: string | null, message: string }[], replaces: string[] }} Checked */

/** @typedef {{ method?: string, body?: string, headers?: Record<string, string>, signal?: AbortSignal }} Options */

const KEY_NAME = 'workbook-api-key';

/** A request that the service refused, could not carry out, or did not receive. */
export class ServiceError extends Error {
  /**
   * @param {number} status HTTP status code; 0 when the service was not reached
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @returns {string | null} the key of this tab */
export function storedKey() {
  return sessionStorage.getItem(KEY_NAME);
}

/** @param {string | null} key null to forget it */
export function storeKey(key) {
  if (key === null) sessionStorage.removeItem(KEY_NAME);
  else sessionStorage.setItem(KEY_NAME, key);
}

/** @param {string} [key] @returns {Promise<RepositoryList>} */
export function listRepositories(key) {
  return ask('uploads/repositories', {}, key);
}

/** @param {string} repositoryId @param {AbortSignal} [signal] @returns {Promise<BranchList>} */
export function listBranches(repositoryId, signal) {
  return ask(`${pathOf(repositoryId)}/branches`, signal === undefined ? {} : { signal });
}

/**
 * @param {string} repositoryId
 * @param {string} commitId
 * @param {string} path
 * @returns {Promise<Entry[]>}
 */
export async function listFolder(repositoryId, commitId, path) {
  const query = new URLSearchParams({ commit: commitId, path }).toString();
  /** @type {{ entries: Entry[] }} */
  const { entries } = await ask(`${pathOf(repositoryId)}/folder?${query}`);
  return entries;
}

/**
 * Asks what a commit would be refused for, and what it would replace, before any file is sent.
 * @param {string} repositoryId
 * @param {Question} question
 * @param {AbortSignal} signal
 * @returns {Promise<Checked>}
 */
export function askFirst(repositoryId, question, signal) {
  return ask(`${pathOf(repositoryId)}/checks`, posted(question, signal));
}

/**
 * @param {string} repositoryId
 * @param {Commit} commit
 * @param {AbortSignal} signal
 * @returns {Promise<string>} id of the new commit
 */
export async function sendCommit(repositoryId, commit, signal) {
  /** @type {{ commitId: string }} */
  const { commitId } = await ask(`${pathOf(repositoryId)}/commits`, posted(commit, signal));
  return commitId;
}

/** @param {unknown} body @param {AbortSignal} signal @returns {Options} */
function posted(body, signal) {
  return {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal,
  };
}

/**
 * @param {string} repositoryId
 * @param {string} branch
 * @param {string} path of a file
 * @param {AbortSignal} signal
 * @returns {Promise<string>} the id of the content that the file has on the branch
 * @throws {ServiceError} also when there is no such file
 */
export async function blobIdAt(repositoryId, branch, path, signal) {
  const response = await reach(contentsOf(repositoryId, branch, path), { method: 'HEAD', signal });
  return (response.headers.get('etag') ?? '').replace(/^(?:W\/)?"|"$/g, '');
}

/**
 * Gets a file, or a folder as a zip.
 * @param {string} repositoryId
 * @param {string} branch
 * @param {string} path
 * @returns {Promise<Blob>}
 */
export async function download(repositoryId, branch, path) {
  const response = await reach(contentsOf(repositoryId, branch, path));
  try {
    return await response.blob();
  } catch {
    throw new ServiceError(0, 'interrupted', 'The download was interrupted. Try again.');
  }
}

/**
 * Sends the bytes of a file, and tells how far it is.
 * @param {string} repositoryId
 * @param {Blob} file
 * @param {{ onProgress: (sentShare: number) => void, signal: AbortSignal }} options the share is from 0 to 1
 * @returns {Promise<string>} the id under which {@link sendCommit} takes the file
 */
export function sendFile(repositoryId, file, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(stopped());
    // Nothing else of a browser tells how far it has sent.
    const request = new XMLHttpRequest();
    request.open('POST', `${pathOf(repositoryId)}/files`);
    request.setRequestHeader('x-api-key', storedKey() ?? '');
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.addEventListener('progress', ({ loaded, total }) => {
      onProgress(total === 0 ? 1 : loaded / total);
    });
    request.addEventListener('error', () =>
      reject(
        new ServiceError(
          0,
          'unreachable',
          'It could not be sent: the service was not reached, or the file has changed on this computer since it was chosen.',
        ),
      ),
    );
    request.addEventListener('load', () => {
      const { status, responseText } = request;
      const blobId = status === 201 ? fieldOf(parsed(responseText), 'blobId') : '';
      if (blobId === '') reject(errorOf(status, responseText));
      else resolve(blobId);
    });
    const stop = () => request.abort();
    signal.addEventListener('abort', stop);
    request.addEventListener('abort', () => reject(stopped()));
    request.addEventListener('loadend', () => signal.removeEventListener('abort', stop));
    request.send(file);
  });
}

function stopped() {
  return new ServiceError(0, 'stopped', 'Stopped.');
}

/** @param {string} repositoryId @param {string} branch @param {string} path */
function contentsOf(repositoryId, branch, path) {
  const inner = path === '' ? '' : `/${path.split('/').map(encodeURIComponent).join('/')}`;
  const query = new URLSearchParams({ branch }).toString();
  return `api/repos/${encodeURIComponent(repositoryId)}/contents${inner}?${query}`;
}

/** @param {string} repositoryId */
function pathOf(repositoryId) {
  return `uploads/repositories/${encodeURIComponent(repositoryId)}`;
}

/**
 * @param {string} path
 * @param {Options} [options]
 * @param {string} [key]
 * @returns {Promise<Response>} one that is well
 * @throws {ServiceError}
 */
async function reach(path, { headers = {}, ...options } = {}, key = storedKey() ?? '') {
  // A header takes these characters only, and the service makes no keys with others.
  if (!/^[\x21-\x7e]*$/.test(key))
    throw new ServiceError(401, 'unauthorized', 'This is not a key of this service.');
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers: { ...headers, 'x-api-key': key },
      cache: 'no-store',
    });
  } catch {
    if (options.signal?.aborted === true) throw stopped();
    throw new ServiceError(
      0,
      'unreachable',
      'The service was not reached. Check the connection, and try again.',
    );
  }
  if (!response.ok) throw errorOf(response.status, await response.text().catch(() => ''));
  return response;
}

/**
 * @template Answer
 * @param {string} path
 * @param {Options} [options]
 * @param {string} [key]
 * @returns {Promise<Answer>}
 * @throws {ServiceError}
 */
async function ask(path, options, key) {
  const response = await reach(path, options, key);
  try {
    return /** @type {Answer} */ (await response.json());
  } catch {
    if (options?.signal?.aborted === true) throw stopped();
    throw new ServiceError(0, 'interrupted', 'The answer of the service was cut off. Try again.');
  }
}

/** @param {number} status @param {string} text @returns {ServiceError} */
function errorOf(status, text) {
  const error = partOf(parsed(text), 'error');
  const message = fieldOf(error, 'message');
  // Something between the browser and the service may have answered.
  if (message === '')
    return new ServiceError(status, 'failed', `The service answered with the error ${status}.`);
  return new ServiceError(status, fieldOf(error, 'code'), sentence(message));
}

/** @param {string} text @returns {unknown} undefined for what is no JSON */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @param {unknown} value @param {string} name @returns {unknown} */
function partOf(value, name) {
  return typeof value === 'object' && value !== null
    ? /** @type {Record<string, unknown>} */ (value)[name]
    : undefined;
}

/** @param {unknown} value @param {string} name @returns {string} empty where there is no such text */
function fieldOf(value, name) {
  const field = partOf(value, name);
  return typeof field === 'string' ? field : '';
}
