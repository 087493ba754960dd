import type { FileBytes, WorkbookKind } from './workbook-check.ts';

/** What the program that opens files is asked; its answer is a Finding. */
export interface Question {
  readonly kind: WorkbookKind;
  readonly file: FileBytes;
  /** How long it may take, in milliseconds. */
  readonly limitMs: number;
}

/** The exit code of the program when a file took too long: none that Node uses by itself, as when a program cannot be loaded. */
export const GAVE_UP_EXIT_CODE = 64;

/** Whether a message is a question: nobody else sends any, so that its parts are not looked at. */
export function isQuestion(message: unknown): message is Question {
  return typeof message === 'object' && message !== null && 'kind' in message && 'limitMs' in message;
}
