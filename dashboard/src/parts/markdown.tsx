import DOMPurify from 'dompurify';
import { memo, useLayoutEffect, useRef } from 'react';
import { parseMarkdown } from './parse-markdown.ts';

// A message must not make the browser load anything: no images, media, styles or forms.
const rules = {
  ALLOWED_TAGS: [
    'p',
    'br',
    'a',
    'strong',
    'em',
    'del',
    'code',
    'pre',
    'ul',
    'ol',
    'li',
    'blockquote',
    'hr',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
    'input',
  ],
  ALLOWED_ATTR: ['href', 'type', 'checked', 'disabled', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'INPUT') {
    if (node.getAttribute('type') === 'checkbox') node.setAttribute('disabled', '');
    else node.remove();
  }
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});

/** Renders an agent's Markdown. The HTML is sanitized; the page's content security policy is the second line of defense. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (place.current !== null) update(place.current, DOMPurify.sanitize(parseMarkdown(text), { ...rules, RETURN_DOM_FRAGMENT: true }));
  }, [text]);
  return <div ref={place} dir="auto" className="prose" />;
});

/**
 * Gives `place` the children of `next`, but keeps those that are the same. While an answer is written only its end changes: what
 * somebody selected in it, or how far they scrolled a table, must not be lost with every word.
 */
function update(place: Node, next: Node): void {
  let old = place.firstChild;
  for (const fresh of [...next.childNodes]) {
    if (old === null) {
      place.appendChild(fresh);
      continue;
    }
    const following: ChildNode | null = old.nextSibling;
    if (!old.isEqualNode(fresh)) {
      if (old instanceof Text && fresh instanceof Text && fresh.data.startsWith(old.data)) old.appendData(fresh.data.slice(old.length));
      else if (old.cloneNode(false).isEqualNode(fresh.cloneNode(false))) update(old, fresh);
      else old.replaceWith(fresh);
    }
    old = following;
  }
  while (old !== null) {
    const following: ChildNode | null = old.nextSibling;
    old.remove();
    old = following;
  }
}
