import { parseAst } from 'rolldown/parseAst';

/** One change of one operator or condition: the text replaces the characters from the start up to the end, which is exclusive. */
export interface Mutation {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const OTHER_OPERATORS: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&&': '||',
  '||': '&&',
};

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}

/** The source with a change made. */
export function mutated(source: string, { start, end, text }: Mutation): string {
  return source.slice(0, start) + text + source.slice(end);
}

/** Lists the operators and conditions of a module, each with its replacement. @throws Error if it cannot be parsed */
export function mutationsOf(source: string): Mutation[] {
  const found: Mutation[] = [];
  const visit = (node: Node): void => {
    found.push(...mutationsAt(node, source));
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  return found;
}

function mutationsAt(node: Node, source: string): Mutation[] {
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      return operatorOf(node, source);
    }
    case 'UnaryExpression': {
      return node['operator'] === '!' ? [{ start: node.start, end: node.start + 1, text: '' }] : [];
    }
    case 'IfStatement':
    case 'WhileStatement':
    case 'ConditionalExpression': {
      return negated(node['test'] as Node, source);
    }
    default: {
      return [];
    }
  }
}

function operatorOf({ operator, left, right }: Node, source: string): Mutation[] {
  const text = OTHER_OPERATORS[String(operator)];
  // The + of texts is left alone: without it, nothing works.
  if (
    text === undefined ||
    (operator === '+' && /['"`]/.test(source.slice((left as Node).start, (right as Node).end)))
  )
    return [];
  const start = source.indexOf(String(operator), (left as Node).end);
  if (start < 0 || start >= (right as Node).start) throw new Error(`no ${String(operator)} at ${start}`);
  return [{ start, end: start + String(operator).length, text }];
}

/** A condition is not negated if its operator is a place already. */
function negated({ type, operator, start, end }: Node, source: string): Mutation[] {
  const hasOwnPlace =
    (type === 'BinaryExpression' && String(operator) in OTHER_OPERATORS) || type === 'UnaryExpression';
  return hasOwnPlace ? [] : [{ start, end, text: `!(${source.slice(start, end)})` }];
}
