// Shows the progress of an upload. Without this script the form works, too: the browser sends it and shows the answer as a page.

/**
 * Finds an element of the page.
 * @template {Element} Kind
 * @param {string} selector
 * @param {new () => Kind} kind
 * @param {ParentNode} [within]
 * @returns {Kind}
 */
function find(selector, kind, within = document) {
  const element = within.querySelector(selector);
  if (element instanceof kind) return element;
  throw new Error(`the page has no ${selector}`);
}

const form = find('form', HTMLFormElement);
const button = find('button', HTMLButtonElement);
const bar = find('progress', HTMLProgressElement);
const result = find('#result', HTMLElement);

/**
 * Shows the result of an upload, and announces it to screen readers.
 * @param {string} outcome `done` or `failed`
 * @param {string} text
 */
function show(outcome, text) {
  bar.hidden = true;
  button.disabled = false;
  result.className = outcome;
  result.textContent = text;
  result.focus();
  if (outcome !== 'done') return;
  find('#files', HTMLInputElement).value = '';
  find('#message', HTMLTextAreaElement).value = '';
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const request = new XMLHttpRequest();
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    bar.value = loaded / total;
  });
  request.addEventListener('load', () => {
    const answer = new DOMParser().parseFromString(request.responseText, 'text/html');
    const { className, textContent } = answer.querySelector('#result') ?? {};
    show(className ?? 'failed', textContent ?? `The service answered ${request.status}; its log says why.`);
  });
  request.addEventListener('error', () => {
    show('failed', 'The connection broke off before the service answered. Upload again.');
  });
  request.open('POST', form.action);
  request.send(new FormData(form));
  bar.value = 0;
  bar.hidden = false;
  button.disabled = true;
});
