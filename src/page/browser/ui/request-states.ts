/** The words for the state of a request. */
export interface StateWords {
  readonly title: string
  /** The meaning as a sentence. */
  readonly meaning: string
  readonly kind: 'good' | 'bad' | 'cut' | 'running'
}

const known: ReadonlyMap<string, StateWords> = new Map<string, StateWords>([
  ['running', { kind: 'running', title: 'Running', meaning: 'The model is still answering.' }],
  ['stop', { kind: 'good', title: 'Answered', meaning: 'The model answered to the end.' }],
  [
    'length',
    {
      kind: 'cut',
      title: 'Cut at a limit',
      meaning: 'The answer reached the most tokens that it was allowed, and ended there.',
    },
  ],
  [
    'tool_calls',
    { kind: 'good', title: 'Called a tool', meaning: 'The model answered by calling tools of the caller.' },
  ],
  [
    'function_call',
    { kind: 'good', title: 'Called a function', meaning: 'The model answered by calling a function of the caller.' },
  ],
  ['content_filter', { kind: 'cut', title: 'Filtered', meaning: 'A filter of the model ended the answer.' }],
  [
    'refused',
    {
      kind: 'bad',
      title: 'Refused',
      meaning: 'The request was wrong, or over a limit: no model answered it. The reply said why.',
    },
  ],
  ['upstream_error', { kind: 'bad', title: 'Model failed', meaning: 'The model or its server failed.' }],
  [
    'client_gone',
    { kind: 'cut', title: 'Caller left', meaning: 'The caller closed the connection before the answer was whole.' },
  ],
  ['timeout', { kind: 'bad', title: 'Too slow', meaning: 'The model took longer than its time limit.' }],
  [
    'interrupted',
    { kind: 'bad', title: 'Service stopped', meaning: 'The service stopped while the model was answering.' },
  ],
  [
    'key_revoked',
    {
      kind: 'bad',
      title: 'Key ended',
      meaning: 'Its key or account was revoked, expired or suspended while the model was answering.',
    },
  ],
  [
    'internal_error',
    {
      kind: 'bad',
      title: 'Fault here',
      meaning: 'The service has a fault; its log says more under the id of the request.',
    },
  ],
])

/** The states that a list can be filtered by, with their titles. */
export const stateTitles: readonly (readonly [string, string])[] = [...known].map(([state, { title }]) => [
  state,
  title,
])

/**
 * The words for a state. A newer service may send a state that this page does not know. Then the title is the name of the state.
 */
export function wordsOfState(state: string): StateWords {
  return known.get(state) ?? { kind: 'cut', title: state, meaning: '' }
}
