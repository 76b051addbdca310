import { withBase } from 'vitepress';
import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import firstScreen from '../../../docs/console/first-screen.png';
import './style.css';

const picture = () =>
  h('a', { class: 'hero-picture', href: withBase('/monitoring.html#the-console') }, [
    h('img', {
      src: firstScreen,
      alt: 'The console: what happens in one sentence, requests by outcome, refused clients',
    }),
  ]);

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'home-hero-image': picture }),
};
