"""Common given names of several languages, by which a single capitalized word is a person."""

from typing import Final

GIVEN_NAMES: Final = frozenset(
    # English
    "aaron abby adam adrian agnes alan albert alex alexander alexandra alice alison allison"
    " amanda amber amy andrea andrew andy angela anita ann anna anne annie anthony arthur ashley"
    " audrey austin barbara ben benjamin bernard beth betty bob bobby bonnie brad brandon brenda"
    " brian"
    " bruce bryan caleb calvin cameron carl carla carlos carol caroline catherine cathy charles"
    " charlie charlotte chloe chris christian christina christine christopher cindy claire clara"
    " clark colin connor craig curtis cynthia daisy dan daniel danny daphne darren dave david"
    " dean deborah debra dennis derek diana diane donald donna dora doris dorothy doug douglas"
    " duncan dylan eddie edgar edith edward edwin eileen elaine eleanor eli elias elizabeth ella"
    " ellen emily emma eric erica erin ethan eugene eva evan eve evelyn felix fiona florence"
    " frances francis fred frederick gabriel gary gavin geoff george gerald gina gloria gordon"
    " greg gregory gus gwen hannah harold harriet harry harvey heather hector helen henry holly"
    " howard hugh hugo ian irene isaac isabel isabella ivan jackie jacob jake james jamie jan"
    " jane janet janice jason jay jean jeff jeffrey jennifer jenny jeremy jerry jess jesse"
    " jessica jill jim jimmy joan joanna joe joel john johnny jonathan jordan joseph josh joshua"
    " joyce juan judith judy julia julian julie justin karen karl kate katherine kathleen kathy"
    " katie keith kelly ken kenneth kevin kim kirk kristen kurt kyle larry laura lauren laurie"
    " leah lee leo leonard leslie liam lily linda lisa liz logan lori louis louise lucas lucy"
    " luis luke lydia lynn madison maggie marcus margaret maria marie marilyn marion martha"
    " martin marvin mary mason matt matthew maureen megan melanie melissa mia michael michelle"
    " miguel mike mildred milo mitchell molly monica nancy naomi natalie nathan neil nicholas"
    " nick nicole nina noah noel nora norma norman olive oliver olivia oscar owen pamela"
    " paris"
    " patricia patrick paul paula peggy penny pete peter phil philip phoebe phyllis rachel ralph"
    " randy raymond rebecca regina rhonda richard rick rita robert roberta robin rodney roger"
    " roland ron ronald rosa rosemary ross roy russell ruth ryan sally sam samantha samuel"
    " sandra sara sarah scott sean sharon shawn sheila shirley simon sophia sophie stacy stan"
    " stanley stella stephanie stephen steve steven stuart susan suzanne sydney sylvia tammy tara"
    " ted teresa terry theo theresa thomas tim timothy tina toby todd tom tony tracy travis trevor"
    " tyler valerie vanessa vera veronica vicky victoria vincent virginia vivian walter wanda"
    " warren wayne wendy wesley william wilma yvonne zach zachary zoe"
    # Other European languages
    " agnieszka aleksandra alessandro alessia alejandro ana anders andreas andrei anja anke"
    " anton antonio astrid axel beatriz bernd bjorn birgit bo bruno camille carmen cecilia"
    " chiara claudia clement cristina damian dario diego dieter dimitri dmitri dominik eduardo"
    " elena elias elif emil emilia enrico erik ernst esteban fabian federica federico felipe"
    " fernando francesca francesco francisco franz frida friedrich gabriela georg giulia"
    " giovanni gonzalo guillaume gunnar gustav hans heike heinz helga helmut henrik igor ines"
    " inge ingrid irina isabelle jakob javier johan johanna johannes jonas jorge jose josef"
    " juergen julien jurgen jürgen karin kasia katarina katja katrin klaus krzysztof lars laszlo"
    " lena leon leonie lorenzo luca lucia ludwig lukas magda magnus manuel marco marek margarita"
    " mariana mario marta mateo mathieu mathilde matteo mathias matthias mateusz maxime mikael"
    " mikhail mila milan milena miriam moritz nadia natalia natasha niels nikita niklas nikolai"
    " niko olaf oleg olga otto pablo paolo pascal pavel pedro pierre pilar piotr rafael raul"
    " ricardo roberto rolf sabine sandro sebastian sergei sergio silvia sofia stefan stefano"
    " sven svetlana tatiana thorsten tomas torsten ulrich ursula uwe valentina vasily viktor"
    " vladimir wolfgang xavier yann yulia yuri zofia"
    " amelie andre aurelie celine elodie francois goran helena helene istvan jerome jiri joao"
    " jorgen lea lukasz michal noemie pawel rene renee simone soren stephane tiago zoltan"
    # Asia, Africa and the Middle East
    " aarav abdul abdullah abu adel aditya ahmad ahmed aisha ajay akira ali alia aliyah amina"
    " amir amit amira anand ananya anil anita anjali aryan asha ashok ayesha aziz babak bilal"
    " chidi chen chinua deepa deepak divya emeka fatima feng gita hamid hana haruto hassan hiro"
    " hiroshi hua huang hussein ibrahim imran indira jamal jia jin jing jun kabir kamal karim"
    " kavita keiko kenji khalid kofi krishna kumar kwame lakshmi lei leila li lin ling mahmoud"
    " mariam mei ming mohamed mohammed mustafa nadir naveen neha ngozi nikhil nisha nuria obi"
    " omar osama parvati pooja prakash pranav priya qing rahul raj rajesh rakesh ramesh ravi"
    " rohan rohit sakura samir sana sanjay satoshi shreya sita sunil suresh tariq takashi usman"
    " vijay vikram wei xiao yan yasmin ying yuki yusuf zainab zara".split()
)
NAMES_THAT_ARE_WORDS: Final = frozenset(
    "adam amber angel art bill chase chip clark daisy dawn dean drew faith frank gene grace grant"
    " guy hank harmony heather holly hope iris jack jade jan jay joy julia jun lance lee mark mason"
    " max mercy miles ming norman olive pascal pat penny ray rich rob robin rose rosemary ruby sky"
    " stan sue summer travis victor will".split()
)
"""Names that are also words, months or products: they count where only a person fits."""
NAMES_OF_PLACES: Final = frozenset(
    "austin florence jordan madison milan paris sydney victoria virginia".split()
)
"""Given names that are better known as places: "Milan approved it" may be about the office."""
