import './style/base.css';
import './style/alerts.css';
import './style/views.css';
import 'uplot/dist/uPlot.min.css';

import { render } from 'preact';

import { start } from './state/app.ts';
import { listenForKeys } from './state/keys.ts';
import { App } from './view/App.tsx';

render(<App />, document.getElementById('page') as HTMLElement);
listenForKeys();
start();
