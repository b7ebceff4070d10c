import {
  Activity,
  Bot,
  ChartNoAxesColumn,
  CircleCheck,
  KeyRound,
  type LucideIcon,
  MessagesSquare,
  ScrollText,
  Settings,
  TerminalSquare,
  Webhook,
} from 'lucide-react';

export interface Destination {
  path: string;
  label: string;
  icon: LucideIcon;
  /** The keyboard shortcut is g followed by this key. */
  key: string;
}

/** The groups of the main menu. */
export const destinations: readonly (readonly Destination[])[] = [
  [
    { path: '/', label: 'Overview', icon: Activity, key: 'o' },
    { path: '/playground', label: 'Playground', icon: TerminalSquare, key: 'p' },
  ],
  [
    { path: '/sessions', label: 'Sessions', icon: MessagesSquare, key: 's' },
    { path: '/approvals', label: 'Approvals', icon: CircleCheck, key: 'i' },
    { path: '/agents', label: 'Agents', icon: Bot, key: 'a' },
  ],
  [
    { path: '/usage', label: 'Usage', icon: ChartNoAxesColumn, key: 'u' },
    { path: '/webhooks', label: 'Webhooks', icon: Webhook, key: 'w' },
    { path: '/keys', label: 'API keys', icon: KeyRound, key: 'k' },
    { path: '/audit', label: 'Audit log', icon: ScrollText, key: 'l' },
    { path: '/settings', label: 'Settings', icon: Settings, key: 't' },
  ],
];
