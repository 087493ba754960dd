import type { FileBytes, WorkbookKind } from '../model/workbook-check.ts';

/** What the program that opens files is asked; its answer is a Finding. */
export interface Question {
  readonly kind: WorkbookKind;
  readonly file: FileBytes;
  /** How long it may take, in milliseconds. */
  readonly limitMs: number;
}

/** Whether a message is a question: nobody else sends any, so that its parts are not looked at. */
export function isQuestion(message: unknown): message is Question {
  return typeof message === 'object' && message !== null && 'kind' in message && 'limitMs' in message;
}
